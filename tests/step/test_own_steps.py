"""A caller's own steps: what is refused at once, how failures read, and what bounds them."""

import asyncio
import uuid
from datetime import timedelta
from typing import Any

import pytest
from temporalio import exceptions, workflow
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, RetryState, TimeoutType
from temporalio.worker import Worker

from poimen import Memory, StepAttempt, StepPolicy
from poimen.handle import _bounds, _stems_from, _to_its_end, report_of
from poimen.step_rules import LONGEST_WAIT
from poimen.step_state import StepState
from tests.step.scripted_world import START, spec
from tests.workflows.conftest import RUNNER, StandInMemory, context_package


@workflow.defn(sandboxed=False)  # because a test module is not importable by name inside the sandbox
class OwnSteps:
    """Runs steps named by its input; every one passes at its second attempt."""

    @workflow.run
    async def run(self, asked: dict[str, Any]) -> list[str]:
        passed = []
        for scope, step in asked["steps"]:
            memory = Memory(scope, queue=workflow.info().task_queue)
            policy = StepPolicy(**{"first_delay": 0.0, **asked.get("policy", {})})
            passed.append(
                await memory.run_step(
                    step, _second, policy=policy, repairs={"restart": _broken}, before=tuple(asked.get("before", ()))
                )
            )
        return passed


async def _second(attempt: StepAttempt) -> str:
    if attempt.number == 1:
        raise ApplicationError("x" * 1_000_000, type="Flaky")
    return f"passed {attempt.number}"


async def _broken() -> None:
    raise ApplicationError("nothing to restart")


async def _run(client: Client, queue: str, memory: StandInMemory, **asked: Any) -> list[str]:
    async with Worker(client, task_queue=queue, workflows=[OwnSteps], activities=memory.all(), workflow_runner=RUNNER):
        return await client.execute_workflow(OwnSteps.run, asked, id=f"own-{uuid.uuid4()}", task_queue=queue)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"steps": [["", "plan"]]}, "scope is empty; give 1 to 256 characters."),
        ({"steps": [["acme/api", "a\nb"]]}, "step contains U+000A at character 2."),
        ({"steps": [["acme/api", "plan"]], "policy": {"attempts": 0}}, "policy has fewer than 1 attempt."),
        ({"steps": [["acme/api", "plan"]], "before": ["free-port"]}, "before names what is not among the repairs."),
    ],
)
async def test_a_step_that_cannot_be_run_fails_the_workflow_at_once(
    temporal_client: Client, task_queue: str, asked: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(WorkflowFailureError) as failed:
        await _run(temporal_client, task_queue, StandInMemory(), **asked)

    cause = failed.value.cause
    assert isinstance(cause, ApplicationError)
    assert (cause.type, cause.message) == ("InvalidInput", sentence)


async def test_a_failure_of_any_size_and_a_repair_that_fails_leave_the_step_going(
    temporal_client: Client, task_queue: str
) -> None:
    memory = StandInMemory()
    memory.answers["GetContext"] = lambda message: context_package(
        message, prevention={"repair": "restart", "because": "known"}
    )

    passed = await _run(temporal_client, task_queue, memory, steps=[["acme/api", "plan"]], before=["restart"])

    assert passed == ["passed 2"]
    assert memory.of("AnalyzeError")[0]["applied"]["exit_code"] == 1
    assert len(memory.of("AnalyzeError")[0]["error"]) < 8 * 1024


async def test_a_step_with_no_room_for_another_attempt_ends_with_its_last_error(
    temporal_client: Client, task_queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poimen.step_rules.MOST_EVENTS", 1)
    memory = StandInMemory()

    with pytest.raises(WorkflowFailureError) as failed:
        await _run(temporal_client, task_queue, memory, steps=[["acme/api", "plan"]], policy={"attempts": 500})

    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "Flaky"
    [decision] = memory.of("DocumentDecision")
    assert (decision["end"], decision["reasoning"]) == ("exhausted", "its history is full after 1 attempt")


async def test_one_step_under_two_scopes_has_two_keys(temporal_client: Client, task_queue: str) -> None:
    memory = StandInMemory()

    await _run(temporal_client, task_queue, memory, steps=[["acme/api", "plan"], ["acme/web", "plan"]])

    keys = [message["idempotency_key"] for message in memory.of("DocumentDecision")]
    assert len(set(keys)) == 2


def failed(cause: BaseException) -> ActivityError:
    error = ActivityError(
        "failed",
        scheduled_event_id=1,
        started_event_id=2,
        identity="",
        activity_type="make_plan",
        activity_id="1",
        retry_state=RetryState.MAXIMUM_ATTEMPTS_REACHED,
    )
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        (TimeoutType.START_TO_CLOSE, "timeout"),
        (TimeoutType.SCHEDULE_TO_START, "timeout"),
        (TimeoutType.HEARTBEAT, "worker_lost"),
    ],
)
def test_a_time_out_is_no_failure_of_the_steps_own(kind: TimeoutType, source: str) -> None:
    report = report_of(failed(exceptions.TimeoutError("late", type=kind, last_heartbeat_details=[])), RetryPolicy())

    assert (report.source, report.final) == (source, None)


def test_an_error_that_is_not_retryable_is_final() -> None:
    report = report_of(failed(ApplicationError("no", type="Refused", non_retryable=True)), RetryPolicy())

    assert (report.error, report.final) == ("Refused: no", "Refused is not retryable")


def test_a_type_that_the_policy_does_not_retry_is_final() -> None:
    policy = RetryPolicy(non_retryable_error_types=["Refused"])

    assert report_of(failed(ApplicationError("no", type="Refused")), policy).final == "Refused is not retryable"


def test_the_wait_that_an_error_asks_for_is_heard() -> None:
    error = ApplicationError("busy", next_retry_delay=timedelta(seconds=6))

    assert report_of(failed(error), RetryPolicy()).service_wait_seconds == 6.0


def test_any_exception_reads_by_its_type() -> None:
    assert report_of(KeyError("port"), RetryPolicy()).error == "KeyError: 'port'"


def _policy(policy: RetryPolicy, whole: timedelta | None = None) -> StepPolicy:
    return _bounds(policy, whole, StepState(spec(), START, StepPolicy()), START)


def test_an_activitys_retry_policy_is_the_steps_bound() -> None:
    bounds = _policy(RetryPolicy(maximum_attempts=3, maximum_interval=timedelta(seconds=9)), timedelta(minutes=1))

    assert (bounds.attempts, bounds.first_delay, bounds.factor, bounds.longest_delay) == (3, 1.0, 2.0, 9.0)
    assert (bounds.seconds_budget, bounds.seconds_owner) == (60.0, "activity")


def test_a_retry_policy_without_maxima_has_temporals_own() -> None:
    bounds = _policy(RetryPolicy())

    assert (bounds.attempts, bounds.longest_delay, bounds.seconds_budget) == (None, 100.0, None)


def test_no_interval_of_a_retry_policy_is_too_long_to_be_told() -> None:
    bounds = _policy(RetryPolicy(initial_interval=timedelta(days=40_000)))

    assert bounds.longest_delay == LONGEST_WAIT
    assert bounds.fault() is None


def test_an_error_of_another_place_is_not_the_activitys() -> None:
    origin, other = failed(ApplicationError("no")), ValueError("later")
    wrapped = RuntimeError("no plan")
    wrapped.__cause__ = origin

    assert [_stems_from(error, origin) for error in (origin, wrapped, other)] == [True, True, False]


async def test_what_is_handed_over_is_not_cut_short_by_a_cancellation() -> None:
    begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def hand_over() -> None:
        begun.set()
        await go_on.wait()
        done.set()

    delivering = asyncio.create_task(_to_its_end(hand_over()))
    await begun.wait()
    delivering.cancel()
    await asyncio.sleep(0)
    go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await delivering
    assert done.is_set()
