"""What may follow a failed attempt, and who decides it."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poimen.contracts.memory_calls import RetryAdvice
from poimen.render import plain
from poimen.step_rules import LONGEST_REASON, Spent, StepPolicy, budget_end, next_move

POLICY = StepPolicy(attempts=4, first_delay=1.0, factor=2.0, longest_delay=10.0, repairs=("clear-cache", "restart"))
ONCE = Spent(attempts=1, seconds=5.0)

texts = st.text(max_size=40)
seconds = st.floats(0, 10**9)
advices = st.builds(
    RetryAdvice,
    verdict=st.sampled_from(["retry", "retry_after", "repair", "escalate", "stop"]),
    repair=st.none() | st.sampled_from(["clear-cache", "restart", "format-disk"]),
    delay_seconds=seconds,
    confidence=st.floats(0, 1),
    because=texts,
)
policies = st.builds(
    StepPolicy,
    attempts=st.none() | st.integers(1, 1000),
    first_delay=seconds,
    factor=st.floats(1, 100),
    longest_delay=seconds,
    repairs=st.sets(st.sampled_from(["clear-cache", "restart"])).map(tuple),
    attempts_budget=st.none() | st.integers(0, 1000),
    tokens_budget=st.none() | st.integers(0, 10**6),
    seconds_budget=st.none() | seconds,
    least_confidence=st.floats(0, 1),
)
spendings = st.builds(
    Spent,
    attempts=st.integers(1, 1000),
    tokens=st.integers(0, 10**6),
    seconds=seconds,
    waits=st.integers(0, 1000),
    repairs=st.lists(st.sampled_from(["clear-cache", "restart"]), max_size=4).map(tuple),
)


def advice(verdict: str, **more: object) -> RetryAdvice:
    return RetryAdvice.model_validate({"verdict": verdict, "confidence": 0.5, "because": "known", **more})


def test_a_spent_budget_comes_before_everything_else() -> None:
    policy = replace(POLICY, tokens_budget=100, tokens_owner="step")

    move = next_move(policy, replace(ONCE, tokens=100), "it is final", advice("retry"))

    assert (move.decided_by, move.end) == ("budget", "exhausted")
    assert move.reason == "the step's budget of tokens is spent: 100 used by this step"


def test_a_final_error_comes_before_advice() -> None:
    move = next_move(
        POLICY, ONCE, "the command is not on the executor; not retried", advice("repair", repair="restart")
    )

    assert (move.decided_by, move.end) == ("error", "failed")
    assert move.reason == "the command is not on the executor; not retried"


def test_advice_comes_before_the_policy() -> None:
    move = next_move(POLICY, ONCE, None, advice("repair", repair="restart"))

    assert (move.decided_by, move.repair) == ("advice", "restart")


def test_advice_below_the_confidence_setting_is_not_followed() -> None:
    policy = replace(POLICY, least_confidence=0.6)

    assert next_move(policy, ONCE, None, advice("stop")).decided_by == "policy"


def test_advice_at_the_confidence_setting_is_followed() -> None:
    policy = replace(POLICY, least_confidence=0.5)

    assert next_move(policy, ONCE, None, advice("stop")).decided_by == "advice"


@pytest.mark.parametrize(
    ("verdict", "reason"), [("stop", "stopped: nothing helped"), ("escalate", "needs a person: nothing helped")]
)
def test_advice_can_end_a_step_early(verdict: str, reason: str) -> None:
    move = next_move(POLICY, ONCE, None, advice(verdict, because="nothing helped"))

    assert (move.end, move.reason) == ("stopped", reason)


def test_the_last_attempt_is_the_last_whatever_memory_says() -> None:
    move = next_move(POLICY, Spent(attempts=4), None, advice("retry"))

    assert (move.decided_by, move.end, move.reason) == ("policy", "failed", "4 of 4 attempts failed")


def test_a_repair_that_the_step_did_not_declare_is_not_run() -> None:
    move = next_move(POLICY, ONCE, None, advice("repair", repair="format-disk"))

    assert (move.decided_by, move.repair) == ("policy", "clear-cache")


def test_an_advised_wait_is_cut_to_the_longest_delay() -> None:
    assert next_move(POLICY, ONCE, None, advice("retry_after", delay_seconds=3600.0)).delay_seconds == 10.0


@given(policies, spendings, st.none() | texts, st.none() | advices)
def test_advice_never_widens_the_policy(
    policy: StepPolicy, spent: Spent, final: str | None, said: RetryAdvice | None
) -> None:
    move = next_move(policy, spent, final, said)

    if move.end is None:
        assert policy.attempts is None or spent.attempts < policy.attempts
        assert policy.attempts_budget is None or spent.attempts < policy.attempts_budget
        assert policy.tokens_budget is None or spent.tokens < policy.tokens_budget
        assert policy.seconds_budget is None or spent.seconds + move.delay_seconds < policy.seconds_budget
        assert final is None
    assert 0 <= move.delay_seconds <= policy.longest_delay
    assert move.repair is None or move.repair in policy.repairs


@given(policies, spendings, st.none() | texts, st.none() | advices)
def test_every_move_has_a_readable_reason(
    policy: StepPolicy, spent: Spent, final: str | None, said: RetryAdvice | None
) -> None:
    reason = next_move(policy, spent, final, said).reason

    assert reason.strip()
    assert reason == plain(reason)
    assert len(reason) <= LONGEST_REASON + len("needs a person: ")


@given(policies, spendings, advices)
def test_advice_that_is_not_followed_changes_nothing(policy: StepPolicy, spent: Spent, said: RetryAdvice) -> None:
    ignored = replace(policy, least_confidence=1.0)

    assert next_move(policy, spent, None, None) == next_move(
        ignored, spent, None, said.model_copy(update={"confidence": 0.0})
    )


def test_without_memory_repairs_come_in_their_declared_order_and_then_delays() -> None:
    spent, done = ONCE, []
    for _ in range(3):
        move = next_move(replace(POLICY, attempts=9), spent, None, None)
        done.append(move.repair or move.delay_seconds)
        repairs = (move.repair,) if move.repair else ()
        spent = replace(
            spent, attempts=spent.attempts + 1, repairs=spent.repairs + repairs, waits=spent.waits + (not repairs)
        )
    last = next_move(replace(POLICY, attempts=9), spent, None, None)

    assert done == ["clear-cache", "restart", 1.0]
    assert last.delay_seconds == 2.0


def test_a_repair_that_prevention_ran_is_not_run_again_by_the_policy() -> None:
    assert next_move(POLICY, replace(ONCE, repairs=("clear-cache",)), None, None).repair == "restart"


def test_a_delay_that_ends_after_the_time_budget_is_not_begun() -> None:
    policy = replace(POLICY, repairs=(), first_delay=10.0, seconds_budget=15.0, seconds_owner="run")

    move = next_move(policy, ONCE, None, None)

    assert (move.end, move.reason) == ("exhausted", "the run's time budget ends before the next attempt")


def test_a_runs_budget_of_attempts_reads_as_the_runs() -> None:
    policy = replace(POLICY, attempts_budget=2)

    move = next_move(policy, Spent(attempts=2), None, None)

    assert (move.end, move.reason) == ("exhausted", "the run's budget of attempts is spent")


def test_a_step_that_used_its_own_attempts_failed_although_the_budget_is_spent_too() -> None:
    assert next_move(replace(POLICY, attempts_budget=4), Spent(attempts=4), None, None).end == "failed"


def test_nothing_is_exhausted_without_budgets() -> None:
    assert budget_end(POLICY, Spent(attempts=10**6, tokens=10**9, seconds=1e9)) is None


def test_a_step_without_a_limit_of_attempts_goes_on() -> None:
    assert next_move(replace(POLICY, attempts=None), Spent(attempts=10**6), None, None).end is None


@given(policies)
def test_delays_never_shrink_and_never_pass_the_longest(policy: StepPolicy) -> None:
    delays = [policy.delay(waits) for waits in (0, 1, 2, 10, 150, 700, 999, 10**6)]

    assert all(earlier <= later for earlier, later in pairwise(delays))
    assert max(delays) <= policy.longest_delay


def test_a_delay_of_nothing_stays_nothing_however_often_it_grows() -> None:
    assert StepPolicy(first_delay=0.0, factor=100.0).delay(10_000) == 0.0


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        (StepPolicy(), None),
        (StepPolicy(attempts=None), None),
        (StepPolicy(attempts=0), "has fewer than 1 attempt"),
        (StepPolicy(first_delay=-1.0), "has a delay outside 0 to 1,000,000,000 s"),
        (StepPolicy(longest_delay=float("nan")), "has a delay outside 0 to 1,000,000,000 s"),
        (StepPolicy(factor=0.5), "has a factor below 1"),
        (StepPolicy(least_confidence=2.0), "has a least_confidence outside 0 to 1"),
        (StepPolicy(tokens_budget=-1), "has a budget below 0"),
    ],
)
def test_a_policy_no_step_can_be_run_under_says_why(policy: StepPolicy, fault: str | None) -> None:
    assert policy.fault() == fault
