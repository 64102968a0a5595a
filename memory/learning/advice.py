"""Say what to do after a failure, from the evidence and inside what the step admits."""

from dataclasses import dataclass
from typing import Literal

from memory.learning.candidates import (
    Candidate,
    Kind,
    candidates,
    covers,
    known_cure,
    least_recently_tried,
    own_order,
    wait_candidate,
)
from memory.learning.evidence import Evidence, Tally
from memory.learning.pairing import Tried
from memory.learning.verdict import Admissible, hopeless, lacking_repairs, lacks_wait, looks_again
from memory.learning.wording import FailureName, reason_for_own_order, reason_to_act, reason_to_end, seconds

__all__ = ["Admissible", "Advice", "FailureName", "RecoveryStep", "Tried", "Verdict", "advise"]

UNNAMED = FailureName()

Verdict = Literal["retry", "retry_after", "repair", "escalate", "stop"]

ASKED_PRIOR = 0.9  # a service that names a wait mostly keeps its word
ASKED_LEAST = 0.3


@dataclass(frozen=True, slots=True)
class RecoveryStep:
    """One thing that may be done: L0 only declared, L1 seen in executions; `retry` once it is done."""

    action: Kind
    repair: str | None
    delay_seconds: float
    level: Literal["L0", "L1"]
    confidence: float
    worked: int
    tried: int
    retry: bool


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do next, how sure that is (0 to 1), why in one sentence, and the alternatives in order."""

    verdict: Verdict
    repair: str | None
    delay_seconds: float
    confidence: float
    because: str
    recovery_steps: tuple[RecoveryStep, ...]


def advise(evidence: Evidence, admissible: Admissible, tried: Tried, name: FailureName = UNNAMED) -> Advice:
    """Choose the next move: the step's own, apart from a service's wait, until an earlier occurrence taught better."""
    choices = (candidates if evidence.known else own_order)(evidence, admissible, tried)
    if admissible.attempts_left <= 0:
        return Advice("stop", None, 0.0, 1.0, "no attempts left", _steps(choices, retry=False))
    if hopeless(evidence, admissible):
        probe = _probe(choices, evidence, admissible, tried) if looks_again(evidence) else None
        if probe is None:
            return _end(evidence, choices, name)
        because = f"{reason_to_end(evidence, name)}; this once it is tried again, in case that changed"
        return _move(probe, because, choices)
    asked = _asked(evidence, admissible, tried)
    if asked is not None:
        return _move(asked, _asked_because(admissible), choices)
    if not evidence.known:
        return _move(choices[0], reason_for_own_order(evidence, name), choices)
    chosen = _uncovered(evidence, admissible, tried, choices) or choices[0]
    return _move(chosen, reason_to_act(evidence, chosen, name), choices)


def _move(chosen: Candidate, because: str, choices: list[Candidate]) -> Advice:
    others = [choice for choice in choices if choice != chosen]
    confidence = round(chosen.tally.mean, 2)
    return Advice(chosen.kind, chosen.repair, chosen.delay_seconds, confidence, because, _steps([chosen, *others]))


def _end(evidence: Evidence, choices: list[Candidate], name: FailureName) -> Advice:
    # A cure that is on record and no longer helps needs a person to see what changed.
    verdict: Verdict = "escalate" if evidence.streak.helped else "stop"
    confidence = round(1 - 0.3 / (evidence.streak.length + 1), 2)
    return Advice(verdict, None, 0.0, confidence, reason_to_end(evidence, name), _steps(choices, retry=False))


def _steps(choices: list[Candidate], retry: bool = True) -> tuple[RecoveryStep, ...]:
    return tuple(
        RecoveryStep(
            action=choice.kind,
            repair=choice.repair,
            delay_seconds=choice.delay_seconds,
            level="L1" if choice.tally.tried else "L0",
            confidence=round(choice.tally.mean, 2),
            worked=choice.tally.worked,
            tried=choice.tally.tried,
            retry=retry,
        )
        for choice in choices
    )


def _asked(evidence: Evidence, admissible: Admissible, tried: Tried) -> Candidate | None:
    """Give the wait the service asked for, unless waiting that long has mostly failed."""
    wait = admissible.service_wait_seconds
    if wait is None or _asked_in_vain(evidence, admissible, tried):
        return None
    delay = min(wait, admissible.longest_delay_seconds)
    reached = tried.since_first_failure_seconds + delay
    tally = evidence.delay(reached)
    mean = (tally.successes + ASKED_PRIOR) / (tally.successes + tally.failures + 1)
    known = any(known_cure(evidence.repairs.get(repair, Tally())) for repair in admissible.repairs)
    if mean < (ASKED_PRIOR / 2 if known else ASKED_LEAST):
        return None
    return wait_candidate(delay, reached, tally)


def _asked_in_vain(evidence: Evidence, admissible: Admissible, tried: Tried) -> bool:
    # While nothing is known, one wait that did not help leaves the attempts to the repairs that the author declared.
    untried = any(repair not in tried.applied for repair in admissible.repairs)
    return not evidence.known and untried and tried.retries > len(tried.repairs)


def _asked_because(admissible: Admissible) -> str:
    wait = admissible.service_wait_seconds or 0.0
    because = f"the service asked for {seconds(wait)}"
    if wait > admissible.longest_delay_seconds:
        because += f"; the step waits at most {seconds(admissible.longest_delay_seconds)}"
    return because


def _uncovered(evidence: Evidence, admissible: Admissible, tried: Tried, choices: list[Candidate]) -> Candidate | None:
    """Give the action that must still be tried before the failure may count as permanent, halfway there."""
    streak = evidence.streak
    if admissible.weak or 2 * streak.length < streak.needed or known_cure(choices[0].tally):
        return None
    open_repairs = [c for c in choices if c.repair is not None and c.repair not in tried.repairs]
    lacking = lacking_repairs(evidence, admissible)
    wanted = [c for repair in lacking for c in open_repairs if c.repair == repair]
    cover = _cover_wait(evidence, admissible, tried) if lacks_wait(evidence, admissible) else None
    if not wanted:
        return cover
    repair = least_recently_tried(wanted, evidence)
    return cover if cover is not None and cover.score > repair.score else repair


def _probe(choices: list[Candidate], evidence: Evidence, admissible: Admissible, tried: Tried) -> Candidate | None:
    """Give what the last look left out, so that two looks in a row try everything once; None: enough for now."""
    # The long wait stands for every shorter one: whatever a plain retry would end, it ends too.
    repairs = [c for c in choices if c.repair is not None and c.repair not in tried.repairs]
    waits = [_cover_wait(evidence, admissible, tried)] if _may_still_cover(admissible, tried) else []
    if tried.retries >= (len(admissible.repairs) + 2) // 2:
        return None
    wanted = [c for c in [*repairs, *waits] if not any(covers(t, c) for t in evidence.last_retried)]
    if not wanted and tried.retries == 0:
        wanted = [*repairs, *waits]
    return least_recently_tried(wanted, evidence) if wanted else None


def _may_still_cover(admissible: Admissible, tried: Tried) -> bool:
    return tried.retries == 0 or tried.since_first_failure_seconds < admissible.cover_seconds * 0.99


def _cover_wait(evidence: Evidence, admissible: Admissible, tried: Tried) -> Candidate:
    elapsed = tried.since_first_failure_seconds
    delay = max(admissible.cover_seconds - elapsed, min(admissible.next_delay_seconds, admissible.cover_seconds))
    tally = evidence.delay(admissible.cover_seconds)
    own = delay == admissible.next_delay_seconds
    return wait_candidate(delay, elapsed + delay, tally, own)
