"""The only bound on a step: what may still be tried after a failed attempt, and who says so.

Order: budget, the step's own final errors, advice at or above the confidence setting, the step's policy. Advice
chooses inside the policy, so the policy's limit of attempts is looked at before it: advice never adds an attempt, a
longer delay or a repair that the step did not declare.
"""

import math
from dataclasses import dataclass
from typing import Literal

from poimen.contracts.memory_calls import RetryAdvice
from poimen.contracts.vocabulary import StepEnd
from poimen.render import plain

Decider = Literal["budget", "error", "advice", "policy"]
# Characters of a reason: it is shown in one line of a page, and every later message of the step carries it.
LONGEST_REASON = 300
# Seconds; what the contracts allow for a wait, some 31 years.
LONGEST_WAIT = 1e9
# A server ends a workflow at 51,200 events or 50 MiB, without a word of the step's own.
MOST_EVENTS = 30_000
MOST_BYTES = 30 * 1024 * 1024


@dataclass(frozen=True)
class StepPolicy:
    """The author's bounds for one step; times in seconds, None is no limit.

    ``attempts`` is the step's own limit. ``attempts_budget``, ``tokens_budget`` and ``seconds_budget`` are what the
    step may take out of its own and the run's budgets; ``attempts_owner``, ``tokens_owner`` and ``seconds_owner`` name
    whose budget each of them is.
    """

    attempts: int | None = 4
    first_delay: float = 1.0
    factor: float = 2.0
    longest_delay: float = 60.0
    repairs: tuple[str, ...] = ()
    attempts_budget: int | None = None
    tokens_budget: int | None = None
    seconds_budget: float | None = None
    attempts_owner: str = "run"
    tokens_owner: str = "run"
    seconds_owner: str = "run"
    least_confidence: float = 0.0
    # The workflow has no room left to record another attempt.
    history_is_full: bool = False

    def delay(self, waits: int) -> float:
        """Return the delay before the next attempt after ``waits`` earlier waits."""
        if self.first_delay <= 0:
            return 0.0
        try:
            return min(self.first_delay * self.factor**waits, self.longest_delay)
        except OverflowError:
            # The power leaves the range of a float long after it passed every cap.
            return self.longest_delay

    def fault(self) -> str | None:
        """Return why no step can be run under these bounds, as a predicate, or None."""
        if self.attempts is not None and self.attempts < 1:
            return "has fewer than 1 attempt"
        if not (0 <= self.first_delay <= LONGEST_WAIT and 0 <= self.longest_delay <= LONGEST_WAIT):
            return f"has a delay outside 0 to {LONGEST_WAIT:,.0f} s"
        if not (1 <= self.factor < math.inf):
            return "has a factor below 1"
        if not 0 <= self.least_confidence <= 1:
            return "has a least_confidence outside 0 to 1"
        budgets = (self.attempts_budget, self.tokens_budget, self.seconds_budget)
        if any(budget is not None and not 0 <= budget < math.inf for budget in budgets):
            return "has a budget below 0"
        return None


@dataclass(frozen=True)
class Spent:
    """What a step execution has used so far."""

    attempts: int = 0
    tokens: int = 0
    seconds: float = 0.0
    waits: int = 0
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Move:
    """What happens next: another attempt after a repair or a delay, or the end with a reason."""

    decided_by: Decider
    reason: str
    end: StepEnd | None = None
    repair: str | None = None
    delay_seconds: float = 0.0


def next_move(policy: StepPolicy, spent: Spent, final: str | None, advice: RetryAdvice | None) -> Move:
    """Decide what follows a failed attempt.

    ``final`` is the reason why the failure cannot be cured by repeating, or None.
    """
    return (
        budget_end(policy, spent)
        or _final_error(final)
        or _attempts_end(policy, spent)
        or _within_time(policy, spent, _advised(policy, spent, advice) or _static(policy, spent))
    )


def budget_end(policy: StepPolicy, spent: Spent) -> Move | None:
    """Return the end that an exhausted budget forces, or None while there is something left."""
    if policy.attempts_budget is not None and spent.attempts >= policy.attempts_budget:
        reason = f"the {policy.attempts_owner}'s budget of attempts is spent"
        # The step's own limit is no budget: both at once read as the step's plain failure.
        if policy.attempts is None or spent.attempts < policy.attempts:
            return Move("budget", reason, end="exhausted")
    if policy.tokens_budget is not None and spent.tokens >= policy.tokens_budget:
        reason = f"the {policy.tokens_owner}'s budget of tokens is spent: {spent.tokens} used by this step"
        return Move("budget", reason, end="exhausted")
    if policy.seconds_budget is not None and spent.seconds >= policy.seconds_budget:
        return Move("budget", f"the {policy.seconds_owner}'s time budget is spent", end="exhausted")
    if policy.history_is_full:
        times = f"{spent.attempts:,} attempt{'' if spent.attempts == 1 else 's'}"
        return Move("budget", f"its history is full after {times}", end="exhausted")
    return None


def history_is_full(events: int, size: int) -> bool:
    """Whether a history of so many events and bytes has no safe room for another attempt."""
    return events >= MOST_EVENTS or size >= MOST_BYTES


def _final_error(final: str | None) -> Move | None:
    return None if final is None else Move("error", readable(final), end="failed")


def _attempts_end(policy: StepPolicy, spent: Spent) -> Move | None:
    if policy.attempts is None or spent.attempts < policy.attempts:
        return None
    return Move("policy", f"{spent.attempts} of {policy.attempts} attempts failed", end="failed")


def _advised(policy: StepPolicy, spent: Spent, advice: RetryAdvice | None) -> Move | None:
    if advice is None or advice.confidence < policy.least_confidence:
        return None
    because = readable(advice.because)
    if advice.verdict in ("stop", "escalate"):
        word = "stopped" if advice.verdict == "stop" else "needs a person"
        return Move("advice", f"{word}: {because}", end="stopped")
    delay = min(advice.delay_seconds, policy.longest_delay)
    if advice.verdict == "repair":
        if advice.repair not in policy.repairs:
            return None
        return Move("advice", because, repair=advice.repair, delay_seconds=delay)
    if advice.verdict == "retry_after":
        return Move("advice", because, delay_seconds=delay)
    return Move("advice", because, delay_seconds=policy.delay(spent.waits))


def _static(policy: StepPolicy, spent: Spent) -> Move:
    for repair in policy.repairs:
        if repair not in spent.repairs:
            return Move("policy", f"repair {repair} is next in the declared order", repair=repair)
    delay = policy.delay(spent.waits)
    return Move("policy", f"the step's own delay of {delay:g} s", delay_seconds=delay)


def _within_time(policy: StepPolicy, spent: Spent, move: Move) -> Move:
    if policy.seconds_budget is None or move.end is not None:
        return move
    if spent.seconds + move.delay_seconds < policy.seconds_budget:
        return move
    reason = f"the {policy.seconds_owner}'s time budget ends before the next attempt"
    return Move("budget", reason, end="exhausted")


def readable(reason: str) -> str:
    """Make one bounded line of a reason that was written elsewhere; it is never empty."""
    line = plain(reason[: 10 * LONGEST_REASON])
    if len(line) > LONGEST_REASON:
        return line[: LONGEST_REASON - 1].rstrip() + "…"
    return line or "no reason was given"
