"""The actions a step may take next, each with its evidence and its price."""

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from math import ceil
from typing import Final, Literal

from memory.learning.evidence import DELAYS, PLAIN_WAIT_SECONDS, Evidence, Tally
from memory.learning.pairing import Trial, Tried
from memory.learning.verdict import Admissible

Kind = Literal["retry", "retry_after", "repair"]

EXPLORED_DELAYS: Final = (4.0, 16.0, 64.0)
REPAIR_PRICE: Final = 0.2
ATTEMPT_SECONDS: Final = 60.0
"""A wait of this many seconds costs as much as one attempt."""
KNOWN_SUCCESSES: Final = 1.5
KNOWN_MEAN: Final = 0.6
REPEATED: Final = 0.7
UNCONDITIONAL: Final = 2.0
"""Trials that an action's mean counts for, beside those of the occurrences that went as the one at hand."""
SEEN_TO_HELP: Final = 0.5


@dataclass(frozen=True, slots=True)
class Candidate:
    """One action that the step admits. `reached_seconds` is the time since the first failure when it ends."""

    kind: Kind
    repair: str | None
    delay_seconds: float
    reached_seconds: float
    tally: Tally
    score: float


def known_cure(tally: Tally) -> bool:
    """Say whether an action has worked often and lately enough to be relied on."""
    return tally.successes >= KNOWN_SUCCESSES and tally.mean >= KNOWN_MEAN


def candidates(evidence: Evidence, admissible: Admissible, tried: Tried) -> list[Candidate]:
    """Give what may be tried next, the best first; ties keep the declared order, repairs before waits."""
    found = [*_repairs(evidence, admissible, tried), *_waits(evidence, admissible, tried)]
    return sorted(found, key=lambda candidate: -candidate.score)


def own_order(evidence: Evidence, admissible: Admissible, tried: Tried) -> list[Candidate]:
    """Give what the step does by itself: each declared repair once, then its own next delay."""
    left = [repair for repair in admissible.repairs if repair not in tried.applied]
    repairs = [repair_candidate(repair, evidence.repairs.get(repair, Tally())) for repair in left]
    return [*repairs, _own_wait(evidence, admissible, tried)]


def _repairs(evidence: Evidence, admissible: Admissible, tried: Tried) -> Iterator[Candidate]:
    for repair in admissible.repairs:
        tally = evidence.repairs.get(repair, Tally())
        # That its author declared a repair is worth its price, until it was tried.
        price = 1 + REPAIR_PRICE if tally.tried else 1.0
        applied = tried.repairs.count(repair)
        if applied == 0 or tally.successes >= SEEN_TO_HELP:
            failed = frozenset(tried.repairs)
            mean = _given(failed, evidence.repair_after(failed, repair), tally.mean * REPEATED**applied)
            yield repair_candidate(repair, tally, mean / price)


def _given(failed: Set[str], tally: Tally, mean: float) -> float:
    """Give the mean of an action after the `failed` repairs, from what it did after them before."""
    # What a repair did not end has another cause, which other actions end than on the whole.
    if not failed:
        return mean
    return (tally.successes + UNCONDITIONAL * mean) / (tally.successes + tally.failures + UNCONDITIONAL)


def repair_candidate(repair: str, tally: Tally, score: float = 0.0) -> Candidate:
    """Give the candidate that applies a repair at once."""
    return Candidate("repair", repair, 0.0, 0.0, tally, score)


def _waits(evidence: Evidence, admissible: Admissible, tried: Tried) -> Iterator[Candidate]:
    own = _own_wait(evidence, admissible, tried)
    yield own
    elapsed, longest = tried.since_first_failure_seconds, admissible.longest_delay_seconds
    for total in sorted({*DELAYS, longest}):
        delay = min(ceil(10 * (total - elapsed)) / 10, longest)
        if not own.delay_seconds < delay or total - elapsed > longest:
            continue
        known = evidence.delay(total)
        if total in EXPLORED_DELAYS or known.successes >= SEEN_TO_HELP:
            yield _after(evidence, tried, wait_candidate(delay, total, known))


def _own_wait(evidence: Evidence, admissible: Admissible, tried: Tried) -> Candidate:
    """Give the step's own next delay, no shorter than the service asked for."""
    elapsed, floor = tried.since_first_failure_seconds, admissible.service_wait_seconds or 0.0
    delay = max(admissible.next_delay_seconds, min(floor, admissible.longest_delay_seconds))
    tally = evidence.plain if delay <= PLAIN_WAIT_SECONDS else evidence.delay(elapsed + delay)
    own = wait_candidate(delay, elapsed + delay, tally, delay == admissible.next_delay_seconds)
    return _after(evidence, tried, own)


def _after(evidence: Evidence, tried: Tried, wait: Candidate) -> Candidate:
    """Weigh a wait by what such waits did after the repairs that failed in this occurrence."""
    failed = frozenset(tried.repairs)
    mean = _given(failed, evidence.delay_after(failed, wait.reached_seconds), wait.tally.mean)
    return replace(wait, score=mean / _price(wait.delay_seconds))


def _price(delay: float) -> float:
    return 1 + delay / ATTEMPT_SECONDS


def wait_candidate(delay: float, reached: float, tally: Tally, own: bool = False) -> Candidate:
    """Give the candidate that waits; `own` marks the step's own next delay."""
    return Candidate("retry" if own else "retry_after", None, delay, reached, tally, tally.mean / _price(delay))


def least_recently_tried(choices: list[Candidate], evidence: Evidence) -> Candidate:
    """Pick the candidate whose last trial is the oldest; one never tried comes first."""
    return min(choices, key=lambda candidate: _last_trial(candidate, evidence))


def _last_trial(candidate: Candidate, evidence: Evidence) -> int:
    trials = evidence.trials
    return next((at for at in range(len(trials) - 1, -1, -1) if covers(trials[at], candidate)), -1)


def covers(trial: Trial, candidate: Candidate) -> bool:
    """Say whether a trial tried the candidate, or a wait at least as long."""
    if candidate.repair is not None:
        return trial.applied.repair == candidate.repair
    return trial.applied.repair is None and trial.elapsed_seconds >= candidate.reached_seconds * 0.99
