"""The local stack as one block: databases, Temporal, vault and worker, up together and down together."""

import asyncio
import contextlib
import dataclasses
import json
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from poimen.contracts.definition import LIBRARY
from poimen.contracts.problems import counted
from worker.stack.child import Child, ChildError, ChildSpec, on_free_ports
from worker.stack.kept import kept_running
from worker.stack.opensearch import OpenSearchPorts, RunningOpenSearch, opensearch_server
from worker.stack.postgres import DATABASE, RunningPostgres, postgres_server
from worker.stack.state import HeldLock, Holder, StateFolder, hold, keep_ports
from worker.stack.temporal import NAMESPACE, RunningTemporal, TemporalPorts, temporal_server

Progress = Callable[[str, str, float], None]
"""Told of each part that is up: its name, a detail such as its address, and the seconds it took."""

# -P, because a folder named `worker` where the user stands must not be taken for ours.
WORKER_ARGV = (sys.executable, "-P", "-m", "worker", "worker")
STARTS_AGAIN = "The stack ends with it; start it again, and everything goes on where it was."
_WORKER_READY_SECONDS = 60.0
_WORKER_GRACE_SECONDS = 20.0


@dataclass(frozen=True)
class Addresses:
    """Where a running stack is reached. Holds no secret: a DSN names a password file of the state folder."""

    pid: int
    state: str
    temporal_address: str
    temporal_namespace: str
    temporal_http_url: str
    ui_url: str
    postgres_address: str
    postgres_database: str
    postgres_dsn: str
    postgres_owner_dsn: str
    vault: str
    masking_key_file: str
    task_queue: str
    # "" without OpenSearch: knowledge is then looked up in PostgreSQL.
    opensearch_url: str

    def to_json(self) -> str:
        """Return the addresses as one line of JSON."""
        return json.dumps(dataclasses.asdict(self))

    def environment(self) -> dict[str, str]:
        """Return the variables that lead a worker or the `temporal` CLI here."""
        found = {"POIMEN_INDEX": "opensearch", "POIMEN_OPENSEARCH_URL": self.opensearch_url}
        return {
            "TEMPORAL_ADDRESS": self.temporal_address,
            "TEMPORAL_NAMESPACE": self.temporal_namespace,
            "POIMEN_POSTGRES_DSN": self.postgres_dsn,
            "POIMEN_VAULT": self.vault,
            "POIMEN_MASKING_KEY_FILE": self.masking_key_file,
            "POIMEN_TASK_QUEUE": self.task_queue,
            **(found if self.opensearch_url else {}),
        }


@dataclass(frozen=True)
class WithOpenSearch:
    """That a stack runs OpenSearch too; the server's programs are kept in `cache`, by default the user's."""

    cache: Path | None = None


@contextlib.asynccontextmanager
async def local_stack(
    state_dir: Path,
    *,
    vault_source: Path,
    start_worker: bool = True,
    worker_argv: Sequence[str] = WORKER_ARGV,
    worker_environment: Callable[[Addresses], Mapping[str, str]] = Addresses.environment,
    migrate: Callable[[str], Awaitable[object]] | None = None,
    task_queue: str = "poimen",
    opensearch: WithOpenSearch | None = None,
    progress: Progress = lambda _name, _detail, _seconds: None,
    warn: Callable[[str], None] = lambda _sentence: None,
) -> AsyncIterator[Addresses]:
    """Run a stack for the length of a block, with all its state below `state_dir`.

    `migrate` is called with the owner's DSN before the worker starts. The worker counts as up when it polls
    `task_queue`. A worker that dies is started again, and `warn` told; when a server dies, or the worker again
    and again, the block is cancelled and `ChildError` raised instead.
    Raises `StackInUseError` when another process holds the folder, `StackError` when a part cannot start.
    """
    folder = StateFolder.create(state_dir)
    async with contextlib.AsyncExitStack() as parts:
        lock = await parts.enter_async_context(hold(folder))
        started = time.monotonic()
        postgres = await parts.enter_async_context(_postgres(folder, lock, warn))
        if migrate is not None:
            await migrate(postgres.owner_dsn)
        progress("PostgreSQL", f"{postgres.host}:{postgres.port}", time.monotonic() - started)
        started = time.monotonic()
        temporal = await parts.enter_async_context(_temporal(folder, lock, warn))
        progress("Temporal", str(temporal.ui_url), time.monotonic() - started)
        started = time.monotonic()
        search = await parts.enter_async_context(_opensearch(folder, lock, opensearch, warn))
        if search is not None:
            progress("OpenSearch", search.url, time.monotonic() - started)
        notes = seed_vault(vault_source, folder.vault)
        addresses = _addresses(folder, postgres, temporal, task_queue, search.url if search else "")
        servers = [postgres.child, temporal.child, *([search.child] if search else [])]
        for child in servers:  # all at once, as soon as the worker, entered below, has ended
            parts.callback(child.ask_to_end)
        worker: asyncio.Future[None] | None = None
        if start_worker:
            started = time.monotonic()
            spec = _worker_spec(folder, worker_argv, worker_environment(addresses), lock)
            worker = await parts.enter_async_context(_polling_worker(spec, addresses, warn))
            progress("worker", f"queue {task_queue}, {counted(notes, 'note file')}", time.monotonic() - started)
        lock.publish(dataclasses.replace(Holder.current(), addresses=dataclasses.asdict(addresses)))
        async with _cancelled_by_death_of(servers, worker):
            yield addresses


def seed_vault(source: Path, vault: Path) -> int:
    """Copy the shipped notes into the library of a vault that is not there yet; return how many note files it has."""
    if not vault.exists():
        fresh = vault.with_name(vault.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        # Where every scope of every tenant reads: an edit here counts, whoever runs.
        library = fresh / LIBRARY
        shutil.copytree(source, library, ignore=shutil.ignore_patterns("*.py", "*.pyc", "__pycache__"))
        fresh.chmod(0o700)
        fresh.rename(vault)
    return sum(1 for _ in vault.rglob("*.md"))


def _postgres(
    folder: StateFolder, lock: HeldLock, warn: Callable[[str], None]
) -> contextlib.AbstractAsyncContextManager[RunningPostgres]:
    def run(port: int) -> contextlib.AbstractAsyncContextManager[RunningPostgres]:
        return postgres_server(folder.postgres, port=port, log=folder.log("postgres"), held=[lock.descriptor])

    return on_free_ports(lambda: keep_ports(folder, ("postgres",), warn)["postgres"], run)


def _temporal(
    folder: StateFolder, lock: HeldLock, warn: Callable[[str], None]
) -> contextlib.AbstractAsyncContextManager[RunningTemporal]:
    def choose() -> TemporalPorts:
        ports = keep_ports(folder, ("temporal", "temporal_http", "ui"), warn)
        return TemporalPorts(ports["temporal"], ports["temporal_http"], ports["ui"])

    def run(ports: TemporalPorts) -> contextlib.AbstractAsyncContextManager[RunningTemporal]:
        return temporal_server(ports, log=folder.log("temporal"), folder=folder.temporal, held=[lock.descriptor])

    return on_free_ports(choose, run)


def _opensearch(
    folder: StateFolder, lock: HeldLock, wanted: WithOpenSearch | None, warn: Callable[[str], None]
) -> contextlib.AbstractAsyncContextManager[RunningOpenSearch | None]:
    if wanted is None:
        return contextlib.nullcontext()
    cache = wanted.cache

    def choose() -> OpenSearchPorts:
        ports = keep_ports(folder, ("opensearch", "opensearch_transport"), warn)
        return OpenSearchPorts(ports["opensearch"], ports["opensearch_transport"])

    def run(ports: OpenSearchPorts) -> contextlib.AbstractAsyncContextManager[RunningOpenSearch]:
        log, held = folder.log("opensearch"), [lock.descriptor]
        return opensearch_server(folder.opensearch, ports=ports, log=log, held=held, cache=cache)

    return on_free_ports(choose, run)


def _addresses(
    folder: StateFolder, postgres: RunningPostgres, temporal: RunningTemporal, task_queue: str, search_url: str
) -> Addresses:
    return Addresses(
        pid=os.getpid(),
        state=str(folder.root),
        temporal_address=temporal.address,
        temporal_namespace=NAMESPACE,
        temporal_http_url=temporal.http_url,
        ui_url=str(temporal.ui_url),
        postgres_address=f"{postgres.host}:{postgres.port}",
        postgres_database=DATABASE,
        postgres_dsn=postgres.app_dsn,
        postgres_owner_dsn=postgres.owner_dsn,
        vault=str(folder.vault),
        masking_key_file=str(folder.keep_secret("masking.key")),
        task_queue=task_queue,
        opensearch_url=search_url,
    )


def _worker_spec(folder: StateFolder, argv: Sequence[str], environment: Mapping[str, str], lock: HeldLock) -> ChildSpec:
    return ChildSpec(
        "the worker",
        argv,
        folder.log("worker"),
        environment=environment,
        grace_seconds=_WORKER_GRACE_SECONDS,
        held=[lock.descriptor],
    )


def _polling_worker(
    spec: ChildSpec, addresses: Addresses, say: Callable[[str], None]
) -> contextlib.AbstractAsyncContextManager[asyncio.Future[None]]:
    """Keep a worker running for the length of a block, which begins when it polls."""

    async def until_ready(child: Child) -> None:
        client = await Client.connect(addresses.temporal_address, namespace=addresses.temporal_namespace, lazy=True)
        await child.ready_when(lambda: _is_polled(client, addresses, child.started_at), _WORKER_READY_SECONDS)

    return kept_running(spec, until_ready, say)


async def _is_polled(client: Client, addresses: Addresses, since: float) -> bool:
    """Tell whether anybody polled the task queue since an instant: earlier workers stay listed for minutes."""
    request = DescribeTaskQueueRequest(
        namespace=addresses.temporal_namespace,
        task_queue=TaskQueue(name=addresses.task_queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    try:
        queue = await client.workflow_service.describe_task_queue(request)
    except (RPCError, RuntimeError):  # a server that is gone has a watcher of its own
        return False
    return any(_seconds(poller.last_access_time) >= since for poller in queue.pollers)


def _seconds(timestamp: Any) -> float:
    return float(timestamp.seconds) + float(timestamp.nanos) / 1e9


@contextlib.asynccontextmanager
async def _cancelled_by_death_of(servers: Sequence[Child], worker: asyncio.Future[None] | None) -> AsyncIterator[None]:
    """Cancel the block when a server dies or the worker is given up, and raise that in its place."""
    block = asyncio.current_task()
    assert block is not None
    dead: list[ChildError] = []

    async def watch() -> None:
        watched: list[asyncio.Future[Any]] = [*(server.exited for server in servers), *([worker] if worker else [])]
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        dead.extend(server.death() for server in servers if server.exited.done())
        if worker is not None and worker.done() and isinstance(error := worker.exception(), ChildError):
            dead.append(error)
        block.cancel()

    watching = asyncio.ensure_future(watch())
    try:
        yield
    except asyncio.CancelledError:
        if dead and block.uncancel() == 0:
            raise ChildError(f"{dead[0]} {STARTS_AGAIN}") from None
        raise
    finally:
        watching.cancel()
