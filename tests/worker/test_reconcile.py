"""Executions that were ended from outside get the record they could not write: once, whoever looks."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import (
    Client,
    FetchWorkflowHistoryEventsInput,
    Interceptor,
    OutboundInterceptor,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowHistoryEventAsyncIterator,
)
from temporalio.service import RPCError, RPCStatusCode

from memory.stores import build_stores
from tests.fixtures_postgres import Database
from tests.worker.running import Place, place_of, until
from worker import reconcile
from worker.bootstrap import build_workers
from worker.last_words import Closed, last_words
from worker.reconcile import Reconciler
from worker.settings import Settings

STEP = {"id": "wait", "run": {"command": ["sleep", "600"]}}
DEFINITION = {"name": "long", "scope": "acme/api", "phases": [{"id": "T0", "steps": [STEP]}]}
LONE_STEP = {"scope": "acme/api", "step": STEP}
CHECKED = {"id": "check", "run": {"command": ["false"]}, "retry": {"attempts": 1}}


@dataclass
class Scene:
    """Workers of one queue in this process, and reconcilers that a test drives by hand."""

    client: Client
    place: Place

    def reconciler(self) -> Reconciler:
        return Reconciler(self.client, self.place.queue)

    async def start(self, kind: str, message: dict[str, Any], name: str = "it") -> WorkflowHandle[Any, Any]:
        """Start a workflow and return when its code has run."""
        handle = await self.client.start_workflow(
            kind, message, id=f"{name}-{self.place.queue}", task_queue=self.place.queue
        )
        await handle.query("details")
        return handle

    async def start_unseen(self, kind: str, message: dict[str, Any], name: str = "it") -> WorkflowHandle[Any, Any]:
        """Start a workflow whose code does not run before it is ended."""
        workflow_id, queue = f"{name}-{self.place.queue}", self.place.queue
        return await self.client.start_workflow(
            kind, message, id=workflow_id, task_queue=queue, start_delay=timedelta(hours=1)
        )

    async def closed(self, handle: WorkflowHandle[Any, Any], status: str, run_id: str | None = None) -> None:
        """Return when the list of executions shows a closed one, which is some time after its close."""
        run = run_id or handle.first_execution_run_id
        query = f'WorkflowId = "{handle.id}" AND RunId = "{run}" AND ExecutionStatus = "{status}"'

        async def listed() -> bool:
            return [one async for one in self.client.list_workflows(query)] != []

        await until(listed)

    async def sweep(self, *reconcilers: Reconciler) -> list[str]:
        """Sweep with all at once and wait for what they started."""
        swept = await asyncio.gather(*(one.sweep() for one in reconcilers or (self.reconciler(),)))
        started = [delivery for deliveries in swept for delivery in deliveries]
        for delivery in started:
            result = await self.client.get_workflow_handle(delivery, result_type=dict).result()
            assert result == {"delivered": 1, "refused": []}
        return started

    async def ends(self, kind: str) -> list[str]:
        """Return how the journal says that runs or steps ended."""
        text = await self.place.database.run_sql(
            f"SELECT payload->>'end', payload->>'decision' FROM journal WHERE payload->>'kind' = '{kind}';"
        )
        return text.splitlines()


@pytest_asyncio.fixture(loop_scope="session")
async def scene(temporal_client: Client, database: Database, tmp_path: Path, task_queue: str) -> AsyncIterator[Scene]:
    place = place_of(task_queue, database, tmp_path, temporal_client.service_client.config.target_host)
    settings = Settings.load({**place.variables, "POIMEN_GRACE_SECONDS": "0.1"})
    stores = build_stores(settings.memory())
    await stores.pool.open()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(stores.pool.close)
        for worker in build_workers(settings, temporal_client, stores, settings.executor()):
            await stack.enter_async_context(worker)
        yield Scene(temporal_client, place)


async def test_a_terminated_run_is_put_on_record_once_by_two_reconcilers(scene: Scene) -> None:
    run = await scene.start("HarnessRun", {"definition": DEFINITION})
    await run.terminate("enough")
    await scene.closed(run, "Terminated")
    first, second = scene.reconciler(), scene.reconciler()
    assert await scene.sweep(first, second) == [f"{run.id}/records/{run.first_execution_run_id}/end"]
    assert await scene.sweep(first, second, scene.reconciler()) == []
    assert await scene.ends("run_final") == ["interrupted|interrupted: the run was terminated"]
    key = f"{run.first_execution_run_id}:run:1:run_final"
    assert await scene.place.count(f"key = '{key}' AND run = '{run.first_execution_run_id}'") == 1
    assert await scene.place.count(f"key = '{key}' AND workflow_id = '{run.id}'") == 1


async def test_the_steps_of_a_terminated_run_document_their_own_end(scene: Scene) -> None:
    run = await scene.start("HarnessRun", {"definition": DEFINITION})
    step = scene.client.get_workflow_handle(f"{run.id}/wait")
    await until(lambda: _exists(step))
    await run.terminate()
    with contextlib.suppress(WorkflowFailureError):
        await step.result()
    await scene.closed(run, "Terminated")
    await scene.sweep()
    assert [line.partition("|")[0] for line in await scene.ends("step_completion")] == ["cancelled"]


async def test_a_terminated_step_is_put_on_record_as_interrupted(scene: Scene) -> None:
    step = await scene.start("HarnessStep", {"scope": "acme/api", "step": STEP})
    await step.terminate()
    await scene.closed(step, "Terminated")
    assert len(await scene.sweep(scene.reconciler(), scene.reconciler())) == 1
    assert await scene.ends("step_completion") == ["interrupted|interrupted: the step was terminated"]


async def test_a_run_that_timed_out_is_put_on_record(scene: Scene) -> None:
    run = await scene.client.start_workflow(
        "HarnessRun",
        {"definition": DEFINITION},
        id=f"late-{scene.place.queue}",
        task_queue=scene.place.queue,
        run_timeout=timedelta(seconds=1),
    )
    await scene.closed(run, "TimedOut")
    assert len(await scene.sweep()) == 1
    assert await scene.ends("run_final") == ["interrupted|interrupted: the run timed out"]


async def test_a_run_that_failed_by_itself_is_left_alone(scene: Scene) -> None:
    failing = {**DEFINITION, "phases": [{"id": "T0", "steps": [CHECKED]}]}
    run = await scene.start("HarnessRun", {"definition": failing})
    with contextlib.suppress(WorkflowFailureError):
        await run.result()
    await scene.closed(run, "Failed")
    assert await scene.sweep() == []
    assert len(await scene.ends("run_final")) == 1


async def test_a_run_without_memory_leaves_no_record(scene: Scene) -> None:
    run = await scene.start("HarnessRun", {"definition": DEFINITION, "memory": "off"})
    await run.terminate()
    await scene.closed(run, "Terminated")
    assert await scene.sweep() == []
    assert await scene.place.count("true") == 0


async def test_a_run_that_was_reset_is_put_on_record_for_its_last_execution_alone(scene: Scene) -> None:
    run = await scene.start("HarnessRun", {"definition": DEFINITION})
    request = ResetWorkflowExecutionRequest(
        namespace=scene.client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=run.id, run_id=run.first_execution_run_id or ""),
        reason="test",
        workflow_task_finish_event_id=4,
        request_id="r1",
    )
    second = (await scene.client.workflow_service.reset_workflow_execution(request)).run_id
    await scene.closed(run, "Terminated")
    assert await scene.sweep() == []
    again = scene.client.get_workflow_handle(run.id, run_id=second)
    await again.terminate()
    await scene.closed(run, "Terminated", second)
    # The id is used for something else before anybody looks.
    other = await scene.start("HarnessRun", {"definition": DEFINITION, "memory": "off"})
    assert await scene.sweep() == [f"{run.id}/records/{second}/end"]
    assert await scene.place.count(f"key = '{second}:run:1:run_final' AND branch = '{second[:8]}'") == 1
    assert await scene.place.count(f"run = '{run.first_execution_run_id}' AND payload->>'kind' = 'run_final'") == 1
    await other.terminate()


async def test_a_record_that_was_on_its_way_is_sent_again_as_it_was(scene: Scene) -> None:
    run = await scene.start("HarnessRun", {"definition": {**DEFINITION, "phases": [{"id": "T0", "steps": [CHECKED]}]}})
    with contextlib.suppress(WorkflowFailureError):
        await run.result()
    events = list((await run.fetch_history()).events)
    run_id = run.first_execution_run_id or ""
    sent = max(n for n, event in enumerate(events) if _schedules(event, "DocumentDecision"))
    message = last_words(Closed(run_id, None, events[: sent + 1]))
    assert message is not None
    assert message.idempotency_key == f"{run_id}:run:1:run_final"
    assert message.end == "failed"
    assert last_words(Closed(run_id, None, events)) is None


async def test_an_execution_with_the_longest_id_is_put_on_record(scene: Scene) -> None:
    step = await scene.start_unseen("HarnessStep", LONE_STEP, "é" * ((1_000 - len(f"-{scene.place.queue}")) // 2))
    await step.terminate()
    await scene.closed(step, "Terminated")
    assert len(await scene.sweep()) == 1
    assert await scene.sweep() == []
    assert await scene.place.count(f"key = '{step.first_execution_run_id}:wait:1:1:document'") == 1


@dataclass
class Trouble(Interceptor):
    """Stands between a client and the server: reading the history of one workflow raises `error`."""

    workflow_id: str
    error: Exception
    met: int = 0

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002  the SDK's name
        return _Troubled(next, self)

    def client(self, client: Client) -> Client:
        return Client(**{**client.config(), "interceptors": [self]})


class _Troubled(OutboundInterceptor):
    def __init__(self, inner: OutboundInterceptor, trouble: Trouble) -> None:
        super().__init__(inner)
        self._trouble = trouble

    def fetch_workflow_history_events(
        self,
        input: FetchWorkflowHistoryEventsInput,  # noqa: A002  the SDK's name
    ) -> WorkflowHistoryEventAsyncIterator:
        if input.id == self._trouble.workflow_id:
            self._trouble.met += 1
            raise self._trouble.error
        return super().fetch_workflow_history_events(input)


async def _three_terminated(scene: Scene) -> list[WorkflowHandle[Any, Any]]:
    steps = [await scene.start("HarnessStep", LONE_STEP, name) for name in ("one", "two", "three")]
    for step in steps:
        await step.terminate()
    for step in steps:
        await scene.closed(step, "Terminated")
    return steps


@pytest.mark.parametrize(
    "error", [RPCError("too busy", RPCStatusCode.RESOURCE_EXHAUSTED, b""), RuntimeError("of a kind nobody thought of")]
)
async def test_an_execution_that_fails_to_be_settled_stops_no_other_and_is_met_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    # Without an overlap only what was left holds the next sweep's window open.
    monkeypatch.setattr(reconcile, "_OVERLAP", timedelta(0))
    steps = await _three_terminated(scene)
    trouble = Trouble(steps[1].id, error)
    reconciler = Reconciler(trouble.client(scene.client), scene.place.queue)
    assert len(await scene.sweep(reconciler)) == 2
    assert await scene.sweep(reconciler) == []
    assert trouble.met == 2
    trouble.workflow_id = ""
    assert await scene.sweep(reconciler) == [f"{steps[1].id}/records/{steps[1].first_execution_run_id}/end"]
    assert len(await scene.ends("step_completion")) == 3


async def test_an_execution_that_is_refused_for_good_is_not_met_again(scene: Scene) -> None:
    steps = await _three_terminated(scene)
    trouble = Trouble(steps[1].id, RPCError("no such thing", RPCStatusCode.INVALID_ARGUMENT, b""))
    reconciler = Reconciler(trouble.client(scene.client), scene.place.queue)
    assert len(await scene.sweep(reconciler)) == 2
    assert await scene.sweep(reconciler) == []
    assert trouble.met == 1


@pytest.mark.parametrize(
    ("kind", "message", "record"),
    [("HarnessStep", LONE_STEP, "step_completion"), ("HarnessRun", {"definition": DEFINITION}, "run_final")],
)
async def test_what_was_cancelled_before_its_first_task_is_put_on_record_once(
    scene: Scene, kind: str, message: dict[str, Any], record: str
) -> None:
    handle = await scene.start_unseen(kind, message)
    await handle.cancel()
    await scene.closed(handle, "Canceled")
    await scene.sweep(scene.reconciler(), scene.reconciler())
    assert await scene.sweep() == []
    step = "the step was cancelled before attempt 1"
    sentence = f"cancelled: {step if kind == 'HarnessStep' else 'the run was cancelled'}"
    assert await scene.ends(record) == [f"cancelled|{sentence}"]


async def test_a_step_that_documented_its_own_cancellation_is_left_alone(scene: Scene) -> None:
    step = await scene.start("HarnessStep", LONE_STEP)
    await until(lambda: _runs_a_command(step))
    await step.cancel()
    await scene.closed(step, "Canceled")
    assert await scene.sweep() == []
    assert await scene.ends("step_completion") == ["cancelled|cancelled: the step was cancelled during attempt 1"]


async def _runs_a_command(handle: WorkflowHandle[Any, Any]) -> bool:
    pending = (await handle.describe()).raw_description.pending_activities
    return any(activity.activity_type.name == "RunCommand" for activity in pending)


def _schedules(event: HistoryEvent, activity: str) -> bool:
    return event.activity_task_scheduled_event_attributes.activity_type.name == activity


async def _exists(handle: WorkflowHandle[Any, Any]) -> bool:
    try:
        return (await handle.describe()).status == WorkflowExecutionStatus.RUNNING
    except RPCError:
        return False
