"""Pair each action with what came of it, for one signature of one step."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from memory.learning.outcomes import AppliedAction, Attempt


class Trial(NamedTuple):
    """One action applied against the signature, and whether it ended it.

    `position` counts the key's occurrences from the oldest. `elapsed_seconds` is the time since the signature
    first failed in the occurrence. `before` are the repairs that the occurrence had received already.
    """

    position: int
    run: str
    environment: str
    applied: AppliedAction
    elapsed_seconds: float
    worked: bool
    before: frozenset[str]
    occurrence: str

    @property
    def first_repair(self) -> bool:
        """Say whether it applied the first repair that the occurrence received."""
        return self.applied.repair is not None and not self.before


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One step execution that failed with the signature: its attempts in order, each number once."""

    id: str
    run: str
    environment: str
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class Tried:
    """What the occurrence at hand has already had against the signature.

    `repairs` in the order applied, a prevention included; `retries` counts failed retries;
    `since_first_failure_seconds` is the time since the signature first failed in this occurrence; `applied` are all
    repairs of the occurrence, whatever failure they answered.
    """

    repairs: tuple[str, ...] = ()
    retries: int = 0
    since_first_failure_seconds: float = 0.0
    applied: tuple[str, ...] = ()


def occurrences_of(attempts: Iterable[Attempt], signature: str) -> list[Occurrence]:
    """Give the occurrences that contain the signature, oldest first.

    The first record of an (occurrence, attempt) counts, whatever order the records come in.
    """
    grouped: dict[str, dict[int, Attempt]] = {}
    for attempt in attempts:
        numbered = grouped.setdefault(attempt.occurrence, {})
        known = numbered.get(attempt.attempt)
        if known is None or _record_order(attempt) < _record_order(known):
            numbered[attempt.attempt] = attempt
    containing = [
        (min(a.recorded_order for a in numbered.values()), occurrence, numbered)
        for occurrence, numbered in grouped.items()
        if any(a.signature == signature and a.outcome == "failed" for a in numbered.values())
    ]
    containing.sort(key=lambda entry: entry[:2])
    return [_occurrence(identity, numbered) for _, identity, numbered in containing]


def _occurrence(identity: str, numbered: dict[int, Attempt]) -> Occurrence:
    ordered = tuple(numbered[number] for number in sorted(numbered))
    return Occurrence(identity, ordered[0].run, ordered[0].environment, ordered)


def _record_order(attempt: Attempt) -> tuple[object, ...]:
    # When two records share an order the rest of the row decides, never the order of the input.
    applied = attempt.applied
    return (
        attempt.recorded_order,
        attempt.outcome,
        attempt.signature or "",
        attempt.run,
        attempt.environment,
        applied.kind,
        applied.repair or "",
        applied.waited_seconds,
        applied.since_first_failure_seconds,
    )


def trials_of(occurrence: Occurrence, signature: str, position: int) -> list[Trial]:
    """Pair the actions of one occurrence with their results; one whose result stays open is left out."""
    attempts = occurrence.attempts
    if len(attempts) == 1 and attempts[0].applied.kind != "prevention":
        return []
    trials: list[Trial] = []
    first_failure: Attempt | None = None
    before: frozenset[str] = frozenset()
    for index, attempt in enumerate(attempts):
        applied = attempt.applied
        worked = _result(attempts, index, signature)
        if worked is not None:
            elapsed = _elapsed(attempt, first_failure)
            place = (position, attempt.run, attempt.environment)
            trials.append(Trial(*place, applied, elapsed, worked, before, occurrence.id))
        if applied.repair is not None:
            before |= {applied.repair}
        if first_failure is None and _failed_with(attempt, signature):
            first_failure = attempt
    return trials


def retried(occurrence: Occurrence, signature: str) -> bool:
    """Say whether anything followed a failure with the signature."""
    return any(_failed_with(attempt, signature) for attempt in occurrence.attempts[:-1])


def _failed_with(attempt: Attempt, signature: str) -> bool:
    return attempt.outcome == "failed" and attempt.signature == signature


def _result(attempts: Sequence[Attempt], index: int, signature: str) -> bool | None:
    """Say whether the action before `attempts[index]` ended the signature; None: no trial, or never known."""
    attempt = attempts[index]
    if index == 0:
        # A success after prevention shows nothing: the failure might not have come.
        debited = attempt.applied.kind == "prevention" and _failed_with(attempt, signature)
        return False if debited else None
    before = attempts[index - 1]
    # After a gap in the numbers it is unknown which failure the action answered.
    if not _failed_with(before, signature) or before.attempt + 1 != attempt.attempt:
        return None
    if attempt.outcome == "succeeded":
        return True
    if attempt.signature == signature:
        return False
    later = attempts[index + 1 :]
    if any(_failed_with(one, signature) for one in later):
        return False
    return True if later and later[-1].outcome == "succeeded" else None


def _elapsed(attempt: Attempt, first_failure: Attempt | None) -> float:
    if first_failure is None:
        return 0.0
    began = first_failure.applied.since_first_failure_seconds
    return max(0.0, attempt.applied.since_first_failure_seconds - began)


def tried_in(attempts: Iterable[Attempt], occurrence: str, signature: str) -> Tried:
    """Sum up what one occurrence has had against the signature so far."""
    own = occurrences_of((a for a in attempts if a.occurrence == occurrence), signature)
    if not own:
        return Tried()
    records = own[0].attempts
    first = next(a for a in records if _failed_with(a, signature))
    # An earlier repair answered another failure, except a prevention that did not prevent.
    answered = [a for a in records if a.attempt > first.attempt]
    prevention = [first] if first.applied.kind == "prevention" else []
    repairs = tuple(a.applied.repair for a in [*prevention, *answered] if a.applied.repair is not None)
    retries = sum(_failed_with(a, signature) for a in records[:-1])
    applied = tuple(a.applied.repair for a in records if a.applied.repair is not None)
    return Tried(repairs, retries, _elapsed(records[-1], first), applied)
