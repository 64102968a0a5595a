"""What a run may still spend, shared by steps that run at the same time. Pure.

Attempts are leased: a step starts with all the attempts it may need, or alone with what is left, so the sum never
passes the budget. Tokens are known only after an attempt; every report lowers what the other steps may use.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from poimen.contracts.definition import Budget
from poimen.contracts.memory_calls import BudgetLeft

# The most a definition may ask for, in attempts, tokens and ms; an operator's additions end there as well.
_MOST = {"attempts": 1_000_000, "tokens": 10**15, "time": 366 * 86_400_000}
_MOST_TOKENS = 2**63 - 1


@dataclass
class RunBudget:
    """A run's budget and what is spent and held of it."""

    limit: Budget
    started_at: datetime
    attempts_spent: int = 0
    tokens_spent: int = 0
    leases: dict[str, int] = field(default_factory=dict)
    # Tokens that running steps have reported and that are not yet in tokens_spent.
    reported: dict[str, int] = field(default_factory=dict)
    # The token limits that running steps know.
    told: dict[str, int] = field(default_factory=dict)

    @property
    def deadline(self) -> datetime | None:
        """The instant the time budget ends."""
        return None if self.limit.time is None else self.started_at + timedelta(milliseconds=self.limit.time)

    def lease(self, step: str, wanted: int) -> bool:
        """Hold attempts for a step that is about to start; False when it must wait for others to end."""
        free = self._attempts_free()
        if free is None:
            return True
        if free < wanted and (self.leases or free <= 0):
            return False
        self.leases[step] = min(wanted, free)
        return True

    def for_step(self, step: str, now: datetime) -> BudgetLeft:
        """Return what a step that starts may take out of the run's budget."""
        tokens = self.tokens_left(step)
        if tokens is not None:
            self.told[step] = tokens
        return BudgetLeft(
            attempts=self.leases.get(step),
            tokens=tokens,
            time_seconds=self._seconds_left(now),
        )

    def tokens_left(self, step: str) -> int | None:
        """Return the tokens a step may have used in all, others' reports taken off."""
        if self.limit.tokens is None:
            return None
        others = sum(tokens for name, tokens in self.reported.items() if name != step)
        return max(0, self.limit.tokens - self.tokens_spent - others)

    def tokens_news(self, step: str) -> int | None:
        """Return the step's token limit when it is worth a signal, and take it for told.

        It is when the step has nothing left, or half of what it knows at most: a signal after every report of every
        other step would fill the histories of steps that never come near the limit.
        """
        limit, known = self.tokens_left(step), self.told.get(step)
        if limit is None or known is None or limit >= known:
            return None
        if limit > self.reported.get(step, 0) and limit > known // 2:
            return None
        self.told[step] = limit
        return limit

    def settle(self, step: str, attempts: int, tokens: int) -> None:
        """Take a finished step's spending off and give its lease back.

        A step without a result of its own has used at least the tokens it reported.
        """
        self.leases.pop(step, None)
        self.told.pop(step, None)
        self.attempts_spent += attempts
        self.spend(max(tokens, self.reported.pop(step, 0)))

    def spend(self, tokens: int) -> None:
        """Take tokens off that no step has used, as a gate does."""
        self.tokens_spent = min(self.tokens_spent + tokens, _MOST_TOKENS)

    def left(self, now: datetime) -> BudgetLeft:
        """Return what the run may still spend."""
        attempts = None if self.limit.attempts is None else max(0, self.limit.attempts - self.attempts_spent)
        return BudgetLeft(attempts=attempts, tokens=self.tokens_left(""), time_seconds=self._seconds_left(now))

    def exhausted(self, now: datetime) -> str | None:
        """Say which budget is used up, or None."""
        limit, left = self.limit, self.left(now)
        if left.attempts == 0:
            return f"the run's budget of {limit.attempts} attempts is spent"
        if left.tokens == 0:
            return f"the run's budget of {limit.tokens} tokens is spent ({self.tokens_spent} used)"
        if left.time_seconds == 0:
            return f"the run's time budget of {(limit.time or 0) / 1000:g} s is spent"
        return None

    def extend(self, *, attempts: int, tokens: int, seconds: float) -> None:
        """Add to the limits that exist, up to what a definition may have; what has no limit keeps none."""
        more = {"attempts": attempts, "tokens": tokens, "time": round(seconds * 1000)}
        now = {name: getattr(self.limit, name) for name in more}
        raised = {name: min(now[name] + by, _MOST[name]) for name, by in more.items() if now[name] is not None}
        self.limit = self.limit.model_copy(update=raised)

    def _attempts_free(self) -> int | None:
        if self.limit.attempts is None:
            return None
        return self.limit.attempts - self.attempts_spent - sum(self.leases.values())

    def _seconds_left(self, now: datetime) -> float | None:
        deadline = self.deadline
        return None if deadline is None else max(0.0, (deadline - now) / timedelta(seconds=1))
