"""A caller's own workflow with the handle: same activity, same types, same error, and memory in between."""

import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import Worker

from poimen import Memory, StepAttempt, StepPolicy
from tests.workflows.conftest import RUNNER, StandInMemory, analysis, workers

LIMIT = timedelta(seconds=10)


@workflow.defn(sandboxed=False)  # because a test module is not importable by name inside the sandbox
class Planning:
    """Plans with memory; what it does is chosen by its input."""

    @workflow.run
    async def run(self, asked: dict[str, Any]) -> Any:
        memory = Memory("acme/api", queue=asked["queue"])
        if asked["how"] == "verified":
            return await self._verified(memory)
        retry = RetryPolicy(
            initial_interval=timedelta(milliseconds=1),
            maximum_attempts=3,
            non_retryable_error_types=asked.get("final", []),
        )
        texts = []
        for _ in range(asked.get("times", 1)):
            async with memory.step("plan") as step:
                texts.append(step.context.text)
                plan = await step.execute_activity("make_plan", start_to_close_timeout=LIMIT, retry_policy=retry)
                if asked["how"] == "raises":
                    raise ApplicationError("the plan is no plan", non_retryable=True)
        return [plan, *texts]

    async def _verified(self, memory: Memory) -> str:
        async def attempt(asked: StepAttempt) -> str:
            return f"draft {asked.number}"

        async def verify(draft: str) -> str | None:
            return None if draft == "draft 2" else "too short"

        return await memory.run_step("draft", attempt, verify=verify, policy=StepPolicy(attempts=3, first_delay=0.0))


class Plans:
    """Fails the first ``failures`` times."""

    def __init__(self, failures: int) -> None:
        self.failures, self.made = failures, 0

    def activity(self) -> Callable[..., Awaitable[str]]:
        @activity.defn(name="make_plan")
        async def make_plan() -> str:
            self.made += 1
            if self.made <= self.failures:
                raise ApplicationError("no rates yet", type="NoRates")
            return "the plan"

        return make_plan


async def _plan(client: Client, queue: str, plans: Plans, **asked: Any) -> Any:
    message = {"queue": queue, "how": "plain", **asked}
    async with Worker(
        client, task_queue=f"{queue}-own", workflows=[Planning], activities=[plans.activity()], workflow_runner=RUNNER
    ):
        return await client.execute_workflow(Planning.run, message, id=f"own-{uuid.uuid4()}", task_queue=f"{queue}-own")


@pytest.fixture
async def queue(temporal_client: Client, task_queue: str, memory: StandInMemory, tmp_path: Path) -> Any:
    async with workers(temporal_client, task_queue, memory, tmp_path):
        yield task_queue


async def test_the_activitys_result_comes_back_and_the_success_is_learned(
    temporal_client: Client, queue: str, memory: StandInMemory
) -> None:
    answer = await _plan(temporal_client, queue, Plans(0))

    assert answer[0] == "the plan"
    assert "nothing known, because nothing is on record" in answer[1]
    assert [name for name, _ in memory.calls] == ["GetContext", "LearnFromExecution", "DocumentDecision"]


async def test_a_failed_activity_is_analysed_and_tried_again(
    temporal_client: Client, queue: str, memory: StandInMemory
) -> None:
    plans = Plans(2)

    await _plan(temporal_client, queue, plans)

    assert plans.made == 3
    assert [message["error"] for message in memory.of("AnalyzeError")] == ["NoRates: no rates yet"] * 2
    assert [message["attempt"] for message in memory.of("AnalyzeError")] == [1, 2]


async def test_the_activitys_own_error_is_raised_unchanged(
    temporal_client: Client, queue: str, memory: StandInMemory
) -> None:
    with pytest.raises(WorkflowFailureError) as failed:
        await _plan(temporal_client, queue, Plans(9))

    cause = failed.value.cause
    assert isinstance(cause, ActivityError)
    assert isinstance(cause.cause, ApplicationError)
    assert (cause.cause.type, cause.cause.message) == ("NoRates", "no rates yet")
    assert memory.of("DocumentDecision")[0]["end"] == "failed"


async def test_the_retry_policy_is_the_bound(temporal_client: Client, queue: str) -> None:
    plans = Plans(9)

    with pytest.raises(WorkflowFailureError):
        await _plan(temporal_client, queue, plans)

    assert plans.made == 3


async def test_an_error_type_that_the_policy_does_not_retry_is_final(temporal_client: Client, queue: str) -> None:
    plans = Plans(9)

    with pytest.raises(WorkflowFailureError):
        await _plan(temporal_client, queue, plans, final=["NoRates"])

    assert plans.made == 1


async def test_memory_stops_a_retry_that_never_helped(
    temporal_client: Client, queue: str, memory: StandInMemory
) -> None:
    memory.answers["AnalyzeError"] = lambda message: analysis(message, "stop")
    plans = Plans(9)

    with pytest.raises(WorkflowFailureError):
        await _plan(temporal_client, queue, plans)

    assert plans.made == 1
    assert memory.of("DocumentDecision")[0]["end"] == "stopped"


async def test_an_exception_of_the_block_is_a_failure_and_goes_on_unchanged(
    temporal_client: Client, queue: str, memory: StandInMemory
) -> None:
    with pytest.raises(WorkflowFailureError) as failed:
        await _plan(temporal_client, queue, Plans(0), how="raises")

    assert str(failed.value.cause) == "the plan is no plan"
    assert memory.of("AnalyzeError")[0]["error"] == "ApplicationError: the plan is no plan"
    assert [message["end"] for message in memory.of("DocumentDecision")] == ["failed"]


async def test_the_same_step_twice_in_one_workflow_is_two_visits(
    temporal_client: Client, queue: str, memory: StandInMemory
) -> None:
    await _plan(temporal_client, queue, Plans(0), times=2)

    assert [message["visit"] for message in memory.of("DocumentDecision")] == [1, 2]


async def test_a_verification_in_the_loop_decides(temporal_client: Client, queue: str, memory: StandInMemory) -> None:
    assert await _plan(temporal_client, queue, Plans(0), how="verified") == "draft 2"

    assert [(m["source"], m["error"]) for m in memory.of("AnalyzeError")] == [("verify", "too short")]


async def test_without_memory_on_its_queue_the_workflow_still_ends(temporal_client: Client, task_queue: str) -> None:
    answer = await _plan(temporal_client, f"nobody-{task_queue}", Plans(1))

    assert answer[0] == "the plan"
