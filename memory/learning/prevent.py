"""Choose a repair to apply before attempt 1, when the step has lately begun with what it is known to end."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import sqrt
from typing import Final

from memory.learning.candidates import known_cure
from memory.learning.evidence import Evidence
from memory.learning.outcomes import StepOutcome
from memory.learning.wording import counted

RECENT_RUNS: Final = 6
HOLD_OUT_EVERY: Final = 10
WILSON_Z: Final = 0.67
LEAST_GAIN: Final = 0.4


@dataclass(frozen=True, slots=True)
class Prevention:
    """The repair to apply before attempt 1; if `held_out`, leave it out this once, to see if it is needed."""

    repair: str
    signature: str
    confidence: float
    because: str
    held_out: bool = False


def prevent(
    step_outcomes: Iterable[StepOutcome],
    evidence_by_signature: Mapping[str, Evidence],
    repairs: Sequence[str],
    environment: str,
    titles: Mapping[str, str] | None = None,
) -> Prevention | None:
    """Give the prevention for one step in one environment, or None.

    `repairs` are those the author allows before attempt 1, in declared order. Evidence is needed for the
    `recent_signatures` only, and so are their titles.
    """
    outcomes = _in_order(step_outcomes, environment)
    recent = _recent(outcomes)
    best: tuple[float, Prevention] | None = None
    for signature in sorted({one.first_signature for one in recent if one.first_signature}):
        evidence = evidence_by_signature.get(signature)
        repair = _reliable(evidence, repairs) if evidence else None
        if evidence is None or repair is None:
            continue
        began = sum(one.first_signature == signature for one in recent)
        gain = _wilson_lower(began, len(recent)) * evidence.repairs[repair].mean
        if gain > LEAST_GAIN and (best is None or gain > best[0]):
            held_out = _held_out(outcomes, signature)
            because = _because(evidence, repair, _lately(began, len(recent), titles, signature), held_out)
            best = gain, Prevention(repair, signature, round(evidence.repairs[repair].mean, 2), because, held_out)
    return best[1] if best else None


def recent_signatures(step_outcomes: Iterable[StepOutcome], environment: str) -> set[str]:
    """Give the signatures that the step has lately begun with here: all that may be worth preventing."""
    recent = _recent(_in_order(step_outcomes, environment))
    return {one.first_signature for one in recent if one.first_signature}


def _recent(outcomes: Sequence[StepOutcome]) -> Sequence[StepOutcome]:
    return [one for one in outcomes if one.prevented_by is None][-RECENT_RUNS:]


def _in_order(outcomes: Iterable[StepOutcome], environment: str) -> list[StepOutcome]:
    first: dict[tuple[str, str, int], StepOutcome] = {}
    for one in outcomes:
        execution = (one.run, one.branch, one.visit)
        known = first.get(execution)
        if known is None or (one.recorded_order, repr(one)) < (known.recorded_order, repr(known)):
            first[execution] = one
    ordered = sorted(first.values(), key=lambda one: (one.recorded_order, one.run, one.branch, one.visit))
    return [one for one in ordered if one.environment == environment]


def _reliable(evidence: Evidence, repairs: Sequence[str]) -> str | None:
    known = [r for r in repairs if r in evidence.repairs and known_cure(evidence.repairs[r])]
    return max(known, key=lambda repair: evidence.repairs[repair].mean, default=None)


def _wilson_lower(hits: int, total: int) -> float:
    rate, square = hits / total, WILSON_Z**2
    spread = WILSON_Z * sqrt(rate * (1 - rate) / total + square / (4 * total * total))
    return (rate + square / (2 * total) - spread) / (1 + square / total)


def _held_out(outcomes: Sequence[StepOutcome], signature: str) -> bool:
    # Counted back to the last run without prevention, so that a moving window cannot lose the beat.
    since = takewhile(lambda one: one.prevented_by is not None, reversed(outcomes))
    prevented = sum(one.prevented_signature == signature for one in since)
    return prevented >= HOLD_OUT_EVERY - 1


def _because(evidence: Evidence, repair: str, lately: str, held_out: bool) -> str:
    tally = evidence.repairs[repair]
    reason = f"left out this once to see whether {repair} is still needed" if held_out else lately
    return f"{reason}; {repair} worked {tally.worked} of {tally.tried}"


def _lately(began: int, recent: int, titles: Mapping[str, str] | None, signature: str) -> str:
    title = (titles or {}).get(signature, "this failure")
    if began < recent:
        return f"{began} of the last {counted(recent, 'run')} began with {title}"
    return f"the last {'run' if recent == 1 else counted(recent, 'run')} began with {title}"
