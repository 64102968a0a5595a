"""The only bound on a step: what may still be tried after a failed attempt, and who says so.

Order: budget, the step's own final errors, advice at or above the confidence setting, the step's policy. Advice
chooses inside the policy; it never adds an attempt, a longer delay or a repair that the step did not declare.
"""

from dataclasses import dataclass, field
from typing import Literal

from poimen.contracts.memory_calls import RetryAdvice
from poimen.contracts.vocabulary import StepEnd

Decider = Literal["budget", "error", "advice", "policy"]


@dataclass(frozen=True)
class StepPolicy:
    """The author's bounds for one step; times in seconds, None is no limit.

    ``attempts`` is the step's own limit. ``attempts_budget``, ``tokens_budget`` and ``seconds_budget`` are what the
    step may take out of its own and the run's budgets, and ``budget_owner`` names whose budget is the tighter one.
    """

    attempts: int = 4
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

    def delay(self, waits: int) -> float:
        """Return the delay before the next attempt after ``waits`` earlier waits."""
        # A large exponent overflows a float long before the cap is applied.
        if self.factor > 1 and waits > 1_000:
            return self.longest_delay
        return min(self.first_delay * self.factor**waits, self.longest_delay)


@dataclass(frozen=True)
class Spent:
    """What a step execution has used so far."""

    attempts: int = 0
    tokens: int = 0
    seconds: float = 0.0
    waits: int = 0
    repairs: tuple[str, ...] = field(default=())


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
        if spent.attempts < policy.attempts:
            return Move("budget", reason, end="exhausted")
    if policy.tokens_budget is not None and spent.tokens >= policy.tokens_budget:
        reason = f"the {policy.tokens_owner}'s budget of tokens is spent: {spent.tokens} used by this step"
        return Move("budget", reason, end="exhausted")
    if policy.seconds_budget is not None and spent.seconds >= policy.seconds_budget:
        return Move("budget", f"the {policy.seconds_owner}'s time budget is spent", end="exhausted")
    return None


def _final_error(final: str | None) -> Move | None:
    return None if final is None else Move("error", final, end="failed")


def _attempts_end(policy: StepPolicy, spent: Spent) -> Move | None:
    if spent.attempts < policy.attempts:
        return None
    return Move("policy", f"{spent.attempts} of {policy.attempts} attempts failed", end="failed")


def _advised(policy: StepPolicy, spent: Spent, advice: RetryAdvice | None) -> Move | None:
    if advice is None or advice.confidence < policy.least_confidence:
        return None
    if advice.verdict in ("stop", "escalate"):
        word = "stopped" if advice.verdict == "stop" else "needs a person"
        return Move("advice", f"{word}: {advice.because}", end="stopped")
    if advice.verdict == "repair":
        if advice.repair not in policy.repairs:
            return None
        delay = min(advice.delay_seconds, policy.longest_delay)
        return Move("advice", advice.because, repair=advice.repair, delay_seconds=delay)
    if advice.verdict == "retry_after":
        return Move("advice", advice.because, delay_seconds=min(advice.delay_seconds, policy.longest_delay))
    return Move("advice", advice.because, delay_seconds=policy.delay(spent.waits))


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
