"""Put one step execution into plain words. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from memory.learning.wording import counted, seconds
from poimen.contracts.memory_calls import AppliedAction, RetryAdvice

# A reason that says itself how many attempts there were.
_COUNTS = re.compile(r"\d+ of \d+ attempts? failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptTold:
    """One attempt: how it ended, what was done before it, what memory said, and what the step's rules did."""

    number: int
    failed: bool
    source: str | None
    signature: str | None
    title: str | None
    seen_runs: int
    applied: AppliedAction
    advice: RetryAdvice | None
    next_move: str
    # What was wrong with what it left behind, such as a report that could not be read.
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTold:
    """One step execution; `end` is None while it is not documented, `prevention` is (repair, because).

    `branch` is None before a reset.
    """

    step: str
    visit: int
    branch: str | None
    end: str | None
    reason: str
    observed: bool
    prevention: tuple[str, str] | None
    held_out: bool
    attempts: tuple[AttemptTold, ...]
    delivered: tuple[str, ...]
    empty_reasons: tuple[str, ...]
    silent_tiers: tuple[str, ...]

    @property
    def label(self) -> str:
        visit = f", visit {self.visit}" if self.visit > 1 else ""
        branch = f", branch {self.branch}" if self.branch else ""
        return f"{self.step}{visit}{branch}"


def tell_step(told: StepTold) -> list[str]:
    """Give the lines that explain a step execution, as in "repair free-port before attempt 1: …"."""
    lines = [*_before(told)]
    for attempt, following in zip_longest(told.attempts, told.attempts[1:]):
        lines += _attempt(attempt, following, told)
    return [*lines, _end(told)]


def _before(told: StepTold) -> Iterator[str]:
    if told.prevention is not None:
        repair, because = told.prevention
        yield f"{f'no {repair}' if told.held_out else f'repair {repair}'} before attempt 1: {because}"


def _attempt(attempt: AttemptTold, following: AttemptTold | None, told: StepTold) -> Iterator[str]:
    if attempt.failed:
        yield from _failure(attempt, following, told)
    for warning in attempt.warnings:
        yield f"attempt {attempt.number}, warning: {warning}"


def _failure(attempt: AttemptTold, following: AttemptTold | None, told: StepTold) -> Iterator[str]:
    seen = f", seen in {counted(attempt.seen_runs, 'earlier run')}" if attempt.seen_runs else ""
    key = f" ({attempt.signature[:7]}…{seen})" if attempt.signature else ""
    yield f"attempt {attempt.number} failed{_after(attempt.applied)}: {attempt.title or 'not recognised'}{key}"
    if attempt.advice is None:
        yield "  memory did not answer"
        return
    yield f"  memory said {advised(attempt.advice)}: {attempt.advice.because}"
    yield f"  {_followed(attempt, following, told)}"


def _after(applied: AppliedAction) -> str:
    if applied.repair is not None:
        return f" after {applied.repair}"
    return f" after waiting {seconds(applied.waited_seconds)}" if applied.waited_seconds > 0 else ""


def advised(advice: RetryAdvice) -> str:
    """Name what was advised: "repair free-port", "retry after 6 s", "stop"."""
    if advice.verdict == "repair":
        return f"repair {advice.repair}"
    if advice.delay_seconds > 0:
        return f"retry after {seconds(advice.delay_seconds)}"
    return advice.verdict


def _followed(attempt: AttemptTold, following: AttemptTold | None, told: StepTold) -> str:
    assert attempt.advice is not None
    if _is_followed(attempt.advice, following):
        return "followed"
    why = "memory only observed this run" if told.observed else attempt.next_move
    if following is None and told.end is None:
        return "what was done next is not on record yet"
    return f"not followed: {why}" if why else "not followed"


def _is_followed(advice: RetryAdvice, following: AttemptTold | None) -> bool:
    if advice.verdict in {"stop", "escalate"}:
        return following is None
    if following is None:
        return False
    if advice.verdict == "repair":
        return following.applied.repair == advice.repair
    # A wait is followed when it was not cut short; timers are served a little late, never early.
    return following.applied.repair is None and following.applied.waited_seconds >= advice.delay_seconds * 0.99


def _end(told: StepTold) -> str:
    parts = []
    if told.delivered:
        parts.append(f"delivered {', '.join(told.delivered)}")
    elif told.empty_reasons:
        parts.append(f"nothing delivered ({', '.join(told.empty_reasons)})")
    if told.silent_tiers:
        parts.append(", ".join(told.silent_tiers))
    last = told.attempts[-1].number if told.attempts else 0
    if told.end is None:
        parts.append("not ended yet, as far as is on record")
    elif told.end == "succeeded":
        parts.append(f"passed, attempt {last}")
    elif _COUNTS.match(told.reason) or last == 0:
        parts.append(f"{told.end}: {told.reason}")
    else:
        parts.append(f"{told.end} after {counted(last, 'attempt')}: {told.reason}")
    return " · ".join(parts)
