"""A caller's own steps at their limits: cancellations, retries without a maximum, chains of runs, foreign answers."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, ChildWorkflowError
from temporalio.worker import Replayer, Worker

from poimen import Memory, StepAttempt, StepPolicy, handle
from tests.workflows.conftest import RUNNER, StandInMemory

LIMIT = timedelta(seconds=10)


@workflow.defn(sandboxed=False)  # because a test module is not importable by name inside the sandbox
class Waiting:
    """Waits until it is cancelled."""

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: False)


@workflow.defn(sandboxed=False)  # because a test module is not importable by name inside the sandbox
class Parent:
    """Has a step whose attempt is a child workflow."""

    @workflow.run
    async def run(self) -> None:
        async def attempt(_asked: StepAttempt) -> None:
            await workflow.execute_child_workflow(Waiting.run, id=f"{workflow.info().workflow_id}-child")

        await Memory("acme/api", queue=workflow.info().task_queue).run_step(
            "plan", attempt, policy=StepPolicy(attempts=1)
        )


@workflow.defn(sandboxed=False)  # because a test module is not importable by name inside the sandbox
class Stubborn:
    """Runs one activity in a block, under a retry policy of ``maximum`` attempts."""

    @workflow.run
    async def run(self, maximum: int) -> str:
        retry = RetryPolicy(initial_interval=timedelta(milliseconds=1), maximum_attempts=maximum)
        async with Memory("acme/api", queue=workflow.info().task_queue).step("plan") as step:
            plan = await step.execute_activity("make_plan", start_to_close_timeout=LIMIT, retry_policy=retry)
        return str(plan)


@workflow.defn(sandboxed=False)  # because a test module is not importable by name inside the sandbox
class Drafting:
    """Has a step that passes at its second attempt."""

    @workflow.run
    async def run(self) -> int:
        async def attempt(asked: StepAttempt) -> int:
            return asked.number

        async def verify(number: int) -> bool:
            return number == 2

        return await Memory("acme/api", queue=workflow.info().task_queue).run_step(
            "draft", attempt, verify=verify, policy=StepPolicy(attempts=3, first_delay=0.0)
        )


@workflow.defn(sandboxed=False)  # because a test module is not importable by name inside the sandbox
class Chained:
    """Runs a step in each of ``times`` runs of its chain."""

    @workflow.run
    async def run(self, times: int, named: str | None) -> None:
        async with Memory("acme/api", queue=workflow.info().task_queue, run=named).step("plan"):
            pass
        if times > 1:
            workflow.continue_as_new(args=[times - 1, named])


class Plans:
    """Fails the first ``failures`` times; ``server_attempts`` are what the server counted."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.server_attempts: list[int] = []

    @activity.defn(name="make_plan")
    async def make_plan(self) -> str:
        self.server_attempts.append(activity.info().attempt)
        if len(self.server_attempts) <= self.failures:
            raise ApplicationError("no rates yet", type="NoRates")
        return "the plan"


@contextlib.asynccontextmanager
async def own_worker(client: Client, queue: str, *activities: Any) -> AsyncIterator[None]:
    """Run the workflows of this module beside the given activities."""
    async with Worker(
        client,
        task_queue=queue,
        workflows=[Waiting, Parent, Stubborn, Drafting, Chained],
        activities=activities,
        workflow_runner=RUNNER,
    ):
        yield


async def _children(run: WorkflowHandle[Any, Any]) -> list[tuple[str, timedelta]]:
    """Return the type of each child that was started, and how long the server lets it run."""
    started = [
        event.start_child_workflow_execution_initiated_event_attributes
        async for event in run.fetch_history_events()
        if event.HasField("start_child_workflow_execution_initiated_event_attributes")
    ]
    return [(child.workflow_type.name, child.workflow_execution_timeout.ToTimedelta()) for child in started]


async def test_a_child_that_a_person_cancels_is_a_failed_attempt(
    temporal_client: Client, task_queue: str, memory: StandInMemory
) -> None:
    async with own_worker(temporal_client, task_queue, *memory.all()):
        run = await temporal_client.start_workflow(Parent.run, id=f"own-{uuid.uuid4()}", task_queue=task_queue)
        async with asyncio.timeout(30):
            while not await _children(run):  # noqa: ASYNC110  because a history has no event to wait for
                await asyncio.sleep(0.02)
        await temporal_client.get_workflow_handle(f"{run.id}-child").cancel()

        with pytest.raises(WorkflowFailureError) as failed:
            await run.result()

    assert isinstance(failed.value.cause, ChildWorkflowError)
    assert [message["source"] for message in memory.of("AnalyzeError")] == ["cancelled"]
    assert [message["end"] for message in memory.of("DocumentDecision")] == ["failed"]


async def test_a_record_that_a_cancellation_cut_off_is_handed_over(
    temporal_client: Client, task_queue: str, memory: StandInMemory
) -> None:
    asked = asyncio.Event()

    @activity.defn(name="LearnFromExecution")
    async def slow(_message: dict[str, Any]) -> None:
        asked.set()
        await asyncio.Event().wait()

    rest = [one for one in memory.all() if activity._Definition.must_from_callable(one).name != "LearnFromExecution"]
    async with own_worker(temporal_client, task_queue, *rest, slow, Plans().make_plan):
        run = await temporal_client.start_workflow(Stubborn.run, 1, id=f"own-{uuid.uuid4()}", task_queue=task_queue)
        await asked.wait()
        await run.cancel()
        with pytest.raises(WorkflowFailureError):
            await run.result()

    assert await _children(run) == [("DeliverRecords", timedelta(hours=25))]


async def test_a_cancelled_block_says_during_which_attempt(
    temporal_client: Client, task_queue: str, memory: StandInMemory
) -> None:
    asked, told = asyncio.Event(), asyncio.Event()

    @activity.defn(name="make_plan")
    async def hang() -> None:
        asked.set()
        await told.wait()

    async with own_worker(temporal_client, task_queue, *memory.all(), hang):
        run = await temporal_client.start_workflow(Stubborn.run, 1, id=f"own-{uuid.uuid4()}", task_queue=task_queue)
        await asked.wait()
        await run.cancel()
        with pytest.raises(WorkflowFailureError):
            await run.result()
        told.set()

    assert [m["reasoning"] for m in memory.of("DocumentDecision")] == ["the step was cancelled during attempt 1"]


async def test_a_step_that_went_on_without_the_bound_of_a_history_is_replayed_without_it(
    temporal_client: Client, task_queue: str, memory: StandInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayer = Replayer(workflows=[Drafting], workflow_runner=RUNNER)
    async with own_worker(temporal_client, task_queue, *memory.all()):
        went_on = await temporal_client.start_workflow(Drafting.run, id=f"own-{uuid.uuid4()}", task_queue=task_queue)
        assert await went_on.result() == 2
        monkeypatch.setattr("poimen.step_rules.MOST_EVENTS", 1)
        bound = await temporal_client.start_workflow(Drafting.run, id=f"own-{uuid.uuid4()}", task_queue=task_queue)
        with pytest.raises(WorkflowFailureError, match="failed"):
            await bound.result()

    for run in (went_on, bound):
        await replayer.replay_workflow(await run.fetch_history())
    assert [m["end"] for m in memory.of("DocumentDecision")] == ["succeeded", "exhausted"]


@pytest.mark.parametrize("maximum", [0, 7])
async def test_after_many_attempts_the_server_makes_the_rest(
    temporal_client: Client, task_queue: str, memory: StandInMemory, monkeypatch: pytest.MonkeyPatch, maximum: int
) -> None:
    monkeypatch.setattr(handle, "MOST_ATTEMPTS", 3)
    plans = Plans(failures=4)

    async with own_worker(temporal_client, task_queue, *memory.all(), plans.make_plan):
        answer = await temporal_client.execute_workflow(
            Stubborn.run, maximum, id=f"own-{uuid.uuid4()}", task_queue=task_queue
        )

    assert answer == "the plan"
    assert plans.server_attempts == [1, 1, 1, 1, 2]
    assert len(memory.of("AnalyzeError")) == 3
    assert [message["end"] for message in memory.of("DocumentDecision")] == ["succeeded"]


@pytest.mark.parametrize("bound", ["_MOST_EVENTS", "_MOST_HISTORY_BYTES"])
async def test_a_long_history_leaves_the_rest_to_the_server(
    temporal_client: Client, task_queue: str, memory: StandInMemory, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(handle, bound, 1)
    plans = Plans(failures=2)

    async with own_worker(temporal_client, task_queue, *memory.all(), plans.make_plan):
        await temporal_client.execute_workflow(Stubborn.run, 0, id=f"own-{uuid.uuid4()}", task_queue=task_queue)

    assert plans.server_attempts == [1, 1, 2]


async def test_the_rest_ends_where_the_retry_policy_ends(
    temporal_client: Client, task_queue: str, memory: StandInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handle, "MOST_ATTEMPTS", 2)
    plans = Plans(failures=99)

    async with own_worker(temporal_client, task_queue, *memory.all(), plans.make_plan):
        with pytest.raises(WorkflowFailureError) as failed:
            await temporal_client.execute_workflow(Stubborn.run, 4, id=f"own-{uuid.uuid4()}", task_queue=task_queue)

    assert len(plans.server_attempts) == 4
    assert isinstance(failed.value.cause, ActivityError)
    assert [message["end"] for message in memory.of("DocumentDecision")] == ["failed"]


@pytest.mark.parametrize("named", [None, "order-7"])
async def test_each_run_of_a_chain_is_an_occurrence_of_its_own(
    temporal_client: Client, task_queue: str, memory: StandInMemory, named: str | None
) -> None:
    async with own_worker(temporal_client, task_queue, *memory.all()):
        await temporal_client.execute_workflow(
            Chained.run, args=[3, named], id=f"own-{uuid.uuid4()}", task_queue=task_queue
        )

    told = memory.of("LearnFromExecution")
    assert len({message["occurrence_id"] for message in told}) == 3
    assert len({message["run"] for message in told}) == (1 if named else 3)


async def test_an_answer_that_python_cannot_decode_is_a_loss(
    temporal_client: Client, task_queue: str, memory: StandInMemory
) -> None:
    foreign = Payload(metadata={"encoding": b"json/protobuf", "messageType": b"acme.Unknown"}, data=b"{}")
    memory.answers["GetContext"] = lambda _message: RawValue(foreign)

    async with own_worker(temporal_client, task_queue, *memory.all(), Plans().make_plan):
        answer = await temporal_client.execute_workflow(
            Stubborn.run, 1, id=f"own-{uuid.uuid4()}", task_queue=task_queue, execution_timeout=LIMIT
        )

    assert answer == "the plan"
    assert memory.of("LearnFromExecution") == []
