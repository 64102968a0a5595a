"""Decide when nothing is worth trying any more, what must be tried before, and when to look again."""

from dataclasses import dataclass
from math import ceil, log
from typing import Final

from memory.learning.evidence import Evidence, Tally
from memory.learning.pairing import Trial

FAIR_FAILURES: Final = 3
MOST_FAIR_FAILURES: Final = 8
BY_CHANCE: Final = 0.001
FIRST_FAILURES: Final = 2
SETTLED_ENVIRONMENTS: Final = 4
LOOKS: Final = 2
PROBE_EVERY: Final = 3
LONGEST_COVER_SECONDS: Final = 256.0
"""A longer wait is never tried on purpose, only repeated when it was seen to help."""


@dataclass(frozen=True, slots=True)
class Admissible:
    """What the step's own policy still allows: repairs in declared order, waits in seconds, attempts.

    `service_wait_seconds` is a wait that the failing service itself asked for. A `weak` signature names
    no cause, so it never leads to a permanent stop.
    """

    repairs: tuple[str, ...]
    next_delay_seconds: float
    longest_delay_seconds: float
    attempts_left: int
    service_wait_seconds: float | None = None
    weak: bool = False

    @property
    def cover_seconds(self) -> float:
        """Give the wait that must have failed before waiting counts as tried."""
        return min(self.longest_delay_seconds, LONGEST_COVER_SECONDS)


def hopeless(evidence: Evidence, admissible: Admissible) -> bool:
    """Say whether every admissible action has fairly failed, in distinct runs, in one long streak."""
    streak = evidence.streak
    if admissible.weak or streak.length < streak.needed or streak.runs < 2:
        return False
    return not lacking_repairs(evidence, admissible) and not lacks_wait(evidence, admissible)


def lacking_repairs(evidence: Evidence, admissible: Admissible) -> list[str]:
    """Give the repairs that have not failed often enough in the streak, in declared order."""
    failed: dict[str, list[Trial]] = {repair: [] for repair in admissible.repairs}
    for trial in evidence.streak.trials:
        if trial.applied.repair in failed:
            failed[trial.applied.repair].append(trial)
    return [repair for repair, trials in failed.items() if not _fair(evidence, repair, trials)]


def _fair(evidence: Evidence, repair: str, trials: list[Trial]) -> bool:
    # A harmful repair spoils what follows it in the same occurrence, hence "as first repair".
    first = sum(trial.first_repair for trial in trials)
    enough = len(trials) >= _fair_failures(evidence.repairs.get(repair, Tally()), len(trials))
    return enough and first >= FIRST_FAILURES and _seen_here(evidence, trials)


def _fair_failures(tally: Tally, in_streak: int) -> int:
    """Give how often an action must fail: the more, the less sure it was while it still worked."""
    if not tally.worked:
        return FAIR_FAILURES
    rate = (tally.worked + 0.8) / (tally.tried - in_streak + 1)
    if rate >= 1 - BY_CHANCE:
        return FAIR_FAILURES
    return min(max(ceil(log(BY_CHANCE) / log(1 - rate)), FAIR_FAILURES), MOST_FAIR_FAILURES)


def lacks_wait(evidence: Evidence, admissible: Admissible) -> bool:
    """Say whether the longest wait has not failed often enough in the streak."""
    long = [t for t in evidence.streak.trials if t.elapsed_seconds >= admissible.cover_seconds * 0.99]
    waited = sum(trial.applied.repair is None for trial in long)
    needed = _fair_failures(evidence.delay(admissible.cover_seconds), waited)
    return len(long) < needed or not _seen_here(evidence, long)


def _seen_here(evidence: Evidence, trials: list[Trial]) -> bool:
    streak = evidence.streak
    # Failures elsewhere do not suffice against what has been ended here.
    if evidence.helped_here:
        return any(trial.environment == evidence.environment for trial in trials)
    # A fingerprint that changes in most runs tells nothing apart, and would make every verdict new.
    if streak.environments >= SETTLED_ENVIRONMENTS and 2 * streak.environments > streak.runs:
        return True
    if streak.environments < SETTLED_ENVIRONMENTS:
        return any(trial.environment == evidence.environment for trial in trials)
    # Where several changes have changed nothing, a look at the next is enough: probes do the rest.
    return sum(trial.environment == evidence.environment for trial in streak.trials) >= LOOKS


def looks_again(evidence: Evidence) -> bool:
    """Say whether this would-be stop is one that tries again, so that a wrong verdict heals.

    Every third is, and the second in a new environment.
    """
    second_here = evidence.idle >= 1 and evidence.earlier_here == 1
    return evidence.idle >= PROBE_EVERY - 1 or second_here
