"""A run's budget is shared by its steps and never passed; no step waits for ever."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from poimen.contracts.definition import Budget
from poimen.contracts.message import encode
from workflows.run_budget import RunBudget

BEGAN = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def budget(**limits: int | str) -> RunBudget:
    return RunBudget(Budget.model_validate(limits), BEGAN)


class Leases(RuleBasedStateMachine):
    """Steps lease, run, spend no more than they were given, and end, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = budget(attempts=20, tokens=100)
        self.number = 0

    @rule(wanted=st.integers(1, 30))
    def lease(self, wanted: int) -> None:
        self.number += 1
        self.budget.lease(f"s{self.number}", wanted)

    @precondition(lambda self: self.budget.leases)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        step = data.draw(st.sampled_from(sorted(self.budget.leases)))
        self.budget.settle(step, data.draw(st.integers(0, self.budget.leases[step])), data.draw(st.integers(0, 10)))

    @precondition(lambda self: self.budget.leases)
    @rule(data=st.data())
    def report(self, data: st.DataObject) -> None:
        step = data.draw(st.sampled_from(sorted(self.budget.leases)))
        self.budget.reported[step] = data.draw(st.integers(0, 10))

    @invariant()
    def attempts_never_pass_the_limit(self) -> None:
        held = sum(self.budget.leases.values())
        assert self.budget.attempts_spent + held <= 20
        assert all(lease > 0 for lease in self.budget.leases.values())

    @invariant()
    def somebody_may_start_while_anything_is_left(self) -> None:
        left = self.budget.left(BEGAN).attempts
        if not self.budget.leases and left:
            probe = RunBudget(self.budget.limit, BEGAN, self.budget.attempts_spent)
            assert probe.lease("next", 10**6)

    @invariant()
    def what_is_left_can_be_told(self) -> None:
        encode(self.budget.left(BEGAN))


TestLeases = Leases.TestCase


def test_steps_that_fit_run_at_the_same_time() -> None:
    shared = budget(attempts=10)

    assert [shared.lease(step, 4) for step in ("a", "b", "c")] == [True, True, False]


def test_a_step_that_wants_more_than_is_left_waits_until_it_is_alone() -> None:
    shared = budget(attempts=10)
    shared.lease("a", 4)
    assert not shared.lease("big", 30)

    shared.settle("a", 1, 0)

    assert shared.lease("big", 30)
    assert shared.for_step("big", BEGAN).attempts == 9


def test_what_a_step_did_not_use_is_given_back() -> None:
    shared = budget(attempts=10)
    shared.lease("a", 10)
    shared.settle("a", 2, 0)

    assert shared.left(BEGAN).attempts == 8
    assert shared.leases == {}


def test_nothing_is_leased_from_a_spent_budget() -> None:
    shared = budget(attempts=3)
    shared.settle("a", 3, 0)

    assert not shared.lease("b", 1)
    assert shared.exhausted(BEGAN) == "the run's budget of 3 attempts is spent"


def test_without_a_limit_every_step_starts() -> None:
    free = budget()

    assert all(free.lease(f"s{number}", 1_000) for number in range(100))
    assert free.for_step("s1", BEGAN).attempts is None
    assert free.exhausted(BEGAN + timedelta(days=400)) is None


def test_a_steps_tokens_are_what_the_others_leave() -> None:
    shared = budget(tokens=100)
    shared.settle("done", 1, 20)
    shared.reported.update(a=30, b=10)

    assert (shared.tokens_left("a"), shared.tokens_left("b"), shared.tokens_left("new")) == (70, 50, 40)


def test_tokens_that_were_reported_are_not_counted_twice_when_the_step_ends() -> None:
    shared = budget(tokens=100)
    shared.reported["a"] = 30

    shared.settle("a", 1, 35)

    assert shared.left(BEGAN).tokens == 65


def test_tokens_spent_beyond_the_limit_leave_nothing_and_say_how_many() -> None:
    shared = budget(tokens=100)
    shared.settle("a", 1, 140)

    assert shared.left(BEGAN).tokens == 0
    assert shared.exhausted(BEGAN) == "the run's budget of 100 tokens is spent (140 used)"


def test_the_time_budget_ends_at_its_deadline() -> None:
    shared = budget(time="90s")

    assert shared.deadline == BEGAN + timedelta(seconds=90)
    assert shared.left(BEGAN + timedelta(seconds=30)).time_seconds == 60.0
    assert shared.exhausted(BEGAN + timedelta(seconds=89)) is None
    assert shared.exhausted(BEGAN + timedelta(seconds=90)) == "the run's time budget of 90 s is spent"


def test_an_extension_raises_limits_that_exist_and_adds_none() -> None:
    shared = budget(attempts=3)
    shared.settle("a", 3, 0)

    shared.extend(attempts=2, tokens=1_000, seconds=60.0)

    assert shared.left(BEGAN).attempts == 2
    assert (shared.limit.tokens, shared.limit.time) == (None, None)


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.floats(0, 10**9), st.integers(1, 5))
def test_no_extension_makes_a_budget_that_cannot_be_told(
    attempts: int, tokens: int, seconds: float, times: int
) -> None:
    shared = budget(attempts=1, tokens=1, time="1s")
    for _ in range(times):
        shared.extend(attempts=attempts, tokens=tokens, seconds=seconds)

    assert encode(shared.left(BEGAN))
    assert shared.deadline is not None


@pytest.mark.parametrize("tokens", [2**63 - 1, 2**62])
def test_no_steps_spending_makes_a_sum_that_cannot_be_told(tokens: int) -> None:
    shared = budget(tokens=1)
    for step in "abc":
        shared.settle(step, 1, tokens)

    assert shared.tokens_spent <= 2**63 - 1


def test_a_step_without_a_result_has_spent_what_it_reported() -> None:
    shared = budget(tokens=100)
    shared.reported["a"] = 30

    shared.settle("a", 1, 0)

    assert shared.left(BEGAN).tokens == 70


def test_a_step_hears_of_its_tokens_only_when_they_are_halved_or_gone() -> None:
    shared = budget(tokens=1_000)
    shared.for_step("a", BEGAN)
    told = []
    for spent in (100, 400, 500, 600, 700, 800):
        shared.reported["b"] = spent
        told.append(shared.tokens_news("a"))

    assert told == [None, None, 500, None, None, 200]


def test_a_step_that_has_nothing_left_hears_of_it() -> None:
    shared = budget(tokens=1_000)
    shared.for_step("a", BEGAN)
    shared.reported.update(a=900, b=100)

    assert (shared.tokens_news("a"), shared.tokens_news("a")) == (900, None)


def test_without_a_token_budget_no_step_hears_of_tokens() -> None:
    free = budget(attempts=3)
    free.for_step("a", BEGAN)
    free.reported["b"] = 10**9

    assert free.tokens_news("a") is None
