"""Put a worker together: which queues it polls, with what, under which limits."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from temporalio.client import Client
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.boundary import MemoryActivities
from activities.projection import RebuildActivities
from executors.activities import ExecutorActivities
from executors.settings import ExecutorSettings
from memory.stores import Stores
from worker.settings import Settings
from worker.temporal_client import connect
from workflows.deliver_records import DeliverRecords
from workflows.executor_calls import claim_queue
from workflows.harness_run import HarnessRun
from workflows.harness_step import HarnessStep
from workflows.project_journal import ProjectJournal

__all__ = ["RUNNER", "WORKFLOWS", "build_workers", "connect", "rebuild_queue", "rebuild_worker"]

WORKFLOWS: Final = (HarnessRun, HarnessStep, DeliverRecords, ProjectJournal)
# Passed through, the contracts are imported once; reloaded, they would double the cost of a light workflow.
RUNNER: Final = SandboxedWorkflowRunner(
    restrictions=SandboxRestrictions.default.with_passthrough_modules("poimen", "pydantic", "pydantic_core")
)
_CLAIMS_AT_ONCE: Final = 8


def build_workers(
    settings: Settings, client: Client, stores: Stores | None, executor: ExecutorSettings | None
) -> list[Worker]:
    """Return the workers of a process: of the memory role when it has stores, of the executor role when it has one.

    A memory worker polls the task queue. An executor polls the queue of claims, which all executors share, and a
    queue of its own, whose name is the same after a restart.
    """
    workers = []
    if stores is not None:
        slots = stores.settings.pool_max_size
        activities = [*MemoryActivities(stores).all(), *RebuildActivities(stores).all()]
        workers.append(_worker(settings, client, settings.task_queue, activities, slots, WORKFLOWS))
    if executor is not None:
        own = ExecutorActivities(executor)
        claims = claim_queue(settings.task_queue)
        workers.append(_worker(settings, client, claims, [own.claim_executor], _CLAIMS_AT_ONCE))
        work: list[Callable[..., Any]] = [own.run_command, own.run_model]
        workers.append(_worker(settings, client, executor.queue, work, settings.values["commands_at_once"]))
    return workers


def rebuild_queue(task_queue: str) -> str:
    """Return the queue of rebuilds that the command line runs: the same each time, so that one goes on with another."""
    return f"{task_queue}-rebuild"


def rebuild_worker(settings: Settings, client: Client, stores: Stores) -> Worker:
    """Return a worker for rebuilds alone, which may run where a memory worker refuses to."""
    activities = RebuildActivities(stores).all()
    return _worker(settings, client, rebuild_queue(settings.task_queue), activities, 2, (ProjectJournal,))


def _worker(
    settings: Settings,
    client: Client,
    queue: str,
    activities: Sequence[Callable[..., Any]],
    slots: int,
    workflows: Sequence[type] = (),
) -> Worker:
    return Worker(
        client,
        task_queue=queue,
        activities=activities,
        workflows=workflows,
        workflow_runner=RUNNER,
        max_concurrent_activities=slots,
        # A cancel reaches a command with the answer to a heartbeat: the SDK spaces them by seconds.
        max_heartbeat_throttle_interval=timedelta(seconds=1),
        graceful_shutdown_timeout=timedelta(seconds=settings.values["grace_seconds"]),
        identity=settings.identity,
    )
