"""A step's bounds are the tighter of its own and the run's."""

import dataclasses
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poimen.contracts.definition import Step
from poimen.contracts.message import decode, encode
from poimen.contracts.run_io import StartHarnessStep
from poimen.step_state import AttemptReport
from workflows.attempts import WorkPlace, _answer, _cause, _errand
from workflows.step_specs import branch_of, needs_executor, step_deadline, step_policy, step_spec, task_of

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
PLACE = WorkPlace("run-1", "queue", None)


def start(step: dict[str, Any] | None = None, **more: Any) -> StartHarnessStep:
    body = {"id": "serve", "run": {"command": ["./serve"]}, **(step or {})}
    return decode(StartHarnessStep, {"scope": "acme/api", "step": body, **more}).message


def info(run_id: str = "run-1", original: str = "run-1") -> Any:
    return SimpleNamespace(run_id=run_id, original_execution_run_id=original, first_execution_run_id="first")


def test_a_step_without_a_retry_has_the_runs() -> None:
    policy = step_policy(start(retry={"attempts": 7, "first_delay": "2s", "longest_delay": "3m"}), NOW)

    assert (policy.attempts, policy.first_delay, policy.factor, policy.longest_delay) == (7, 2.0, 2.0, 180.0)


def test_a_steps_own_retry_replaces_the_runs() -> None:
    policy = step_policy(start({"retry": {"attempts": 2}}, retry={"attempts": 7}), NOW)

    assert policy.attempts == 2


@pytest.mark.parametrize(
    ("own", "left", "attempts", "owner"),
    [
        ({"attempts": 2}, {"attempts": 5}, 2, "step"),
        ({"attempts": 5}, {"attempts": 2}, 2, "run"),
        ({"attempts": 5}, {}, 5, "step"),
        (None, {"attempts": 0}, 0, "run"),
    ],
)
def test_the_tighter_budget_binds_and_is_named(
    own: dict[str, int] | None, left: dict[str, int], attempts: int, owner: str
) -> None:
    policy = step_policy(start({"budget": own} if own else {}, budget_left=left), NOW)

    assert (policy.attempts_budget, policy.attempts_owner) == (attempts, owner)


def test_without_budgets_nothing_binds() -> None:
    policy = step_policy(start(), NOW)

    assert (policy.attempts_budget, policy.tokens_budget, policy.seconds_budget) == (None, None, None)


@given(st.none() | st.integers(1, 10**6), st.none() | st.integers(0, 10**6), st.none() | st.integers(0, 10**6))
def test_a_step_never_gets_more_than_any_bound_allows(own: int | None, left: int | None, until: int | None) -> None:
    deadline = None if until is None else (NOW + timedelta(seconds=until)).isoformat()
    body = {"budget": {"tokens": own, "time": f"{own}s"}} if own else {}
    policy = step_policy(start(body, budget_left={"tokens": left, "time_seconds": left}, deadline_at=deadline), NOW)

    tokens = [bound for bound in (own, left) if bound is not None]
    seconds = [bound for bound in (own, left, until) if bound is not None]
    assert policy.tokens_budget == (min(tokens) if tokens else None)
    assert policy.seconds_budget == (min(seconds) if seconds else None)
    assert policy.fault() is None


def test_a_deadline_that_has_passed_leaves_no_time() -> None:
    policy = step_policy(start(deadline_at=(NOW - timedelta(hours=1)).isoformat()), NOW)

    assert (policy.seconds_budget, policy.seconds_owner) == (0.0, "run")


def test_the_deadline_of_a_step_is_its_time_budgets_end() -> None:
    spec = step_spec(start({"budget": {"time": "90s"}}), info(), NOW)

    assert step_deadline(spec, NOW) == NOW + timedelta(seconds=90)
    assert step_deadline(step_spec(start(), info(), NOW), NOW) is None


def test_only_repairs_whose_author_allows_it_may_run_before_a_failure() -> None:
    repairs = [{"id": "free-port", "command": ["x"], "before": True}, {"id": "restart", "command": ["y"]}]

    spec = step_spec(start({"repairs": repairs}), info(), NOW)

    assert (spec.policy.repairs, spec.preventable) == (("free-port", "restart"), ("free-port",))


def test_every_execution_of_a_chain_is_a_run_of_its_own_and_a_reset_is_of_the_run_it_resets() -> None:
    next_one = step_spec(start(), info("run-2", "run-2"), NOW)
    reset = step_spec(start(), info("run-3", "run-2"), NOW)
    inside = step_spec(start(run="outer"), info("run-2", "run-2"), NOW)

    assert (next_one.key, next_one.run, next_one.branch) == ("run-2", "run-2", None)
    assert (reset.key, reset.run, reset.branch) == ("run-3", "run-2", "run-3")
    assert inside.run == "outer"


def test_a_reset_starts_a_branch_and_everything_else_inherits_it() -> None:
    assert branch_of(info("0123456789", "run-1"), "older") == "01234567"
    assert branch_of(info(), "older") == "older"


def test_a_task_is_what_a_search_can_use() -> None:
    step = start({"title": "Serve it", "run": {"command": ["my-agent", "--batch"], "prompt": "Make it pass."}}).step

    assert task_of(step) == "serve\nServe it\nMake it pass.\nmy-agent --batch"


@pytest.mark.parametrize(
    ("body", "needed"),
    [
        ({}, True),
        ({"run": {"model": "small", "prompt": "p"}}, True),
        ({"run": {"activity": {"name": "plan"}}}, False),
        ({"run": {"activity": {"name": "plan"}}, "verify": {"command": ["x"]}}, True),
        ({"run": {"activity": {"name": "plan"}}, "verify": {"activity": {"name": "check"}}}, False),
        ({"run": {"activity": {"name": "plan"}}, "judge": {"model": "small", "rubric": "r"}}, True),
        ({"run": {"activity": {"name": "plan"}}, "repairs": [{"id": "r", "command": ["x"]}]}, True),
    ],
)
def test_an_executor_is_claimed_only_for_what_runs_on_one(body: dict[str, Any], needed: bool) -> None:
    assert needs_executor(start(body).step) is needed


@pytest.mark.parametrize(
    ("left", "seconds", "cut"), [(None, 60.0, False), (90.0, 60.0, False), (60.0, 60.0, False), (20.0, 20.0, True)]
)
def test_a_call_takes_no_longer_than_the_budget(left: float | None, seconds: float, cut: bool) -> None:
    errand = _errand(PLACE, "serve", 1, "step", 60_000, left)

    assert (errand.seconds, errand.cut) == (seconds, cut)


def test_a_call_without_any_time_left_still_has_a_limit_above_zero() -> None:
    assert _errand(PLACE, "serve", 1, "verify", 60_000, 0.0).seconds > 0


@pytest.mark.parametrize(("purpose", "summary"), [("step", "run · attempt 2"), ("judge", "judge · attempt 2")])
def test_a_calls_summary_says_what_it_is_for(purpose: Any, summary: str) -> None:
    assert _errand(PLACE, "serve", 2, purpose, 1_000).summary == summary


def test_a_commands_own_failure_explains_a_failed_verification() -> None:
    ran, verified = AttemptReport("failed", error="Traceback"), AttemptReport("failed", "verify", "exit code 1")

    assert _cause(ran, verified) is ran


def test_a_verification_that_passes_makes_a_failed_command_a_success() -> None:
    passed = AttemptReport("succeeded")

    assert _cause(AttemptReport("failed", error="Traceback"), passed) is passed


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        ("the plan", "the plan"),
        ({"output": "the plan", "tokens": 3}, "the plan"),
        ({"result": 1}, '{"result": 1}'),
        ({"output": 5}, '{"output": 5}'),
        ({}, "{}"),
        ([1, "é"], '[1, "é"]'),
        (7, "7"),
        (None, ""),
    ],
)
def test_whatever_an_activity_answers_is_an_output(answer: object, output: str) -> None:
    assert _answer(answer).output == output


def test_a_huge_answer_of_an_activity_is_cut() -> None:
    assert len(_answer(["x" * 100_000]).output) < 8 * 1024


def test_a_step_survives_its_own_message() -> None:
    message = start({"repairs": [{"id": "r", "command": ["x"]}], "budget": {"time": "90s"}})

    assert decode(StartHarnessStep, encode(message)).message == message
    assert isinstance(message.step, Step)
    assert dataclasses.is_dataclass(step_spec(message, info(), NOW))
