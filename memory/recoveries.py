"""What was tried against a failure, as recovery steps in the order of their merit. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from memory.learning.evidence import Evidence, Tally
from memory.learning.pairing import Trial
from poimen.contracts.vocabulary import ActionKind


@dataclass(frozen=True, slots=True)
class Recovery:
    """One action that was tried: a repair, a wait, or a retry as the step would have made it."""

    action: ActionKind
    repair: str | None
    delay_seconds: float
    tally: Tally


def recoveries(evidence: Evidence) -> list[Recovery]:
    """Give everything that was tried, the most promising first."""
    repairs = (Recovery("repair", repair, 0.0, tally) for repair, tally in evidence.repairs.items())
    found = [*repairs, *_without_repair(evidence)]
    return sorted(found, key=lambda one: (-one.tally.mean, -one.tally.worked, one.repair or "", one.delay_seconds))


def _without_repair(evidence: Evidence) -> Iterator[Recovery]:
    """Tell the waits that helped apart from retries that came too soon.

    A shorter wait that failed says nothing about a longer one, so it counts as a plain retry.
    """
    shortest = min((t.applied.waited_seconds for t, _ in evidence.waits if t.worked), default=0.0)
    if shortest <= 0:
        yield from _recovery("none", evidence.waits)
        return
    # Timers are served a little late, never early.
    long = [(t, w) for t, w in evidence.waits if t.applied.waited_seconds >= shortest * 0.99]
    yield from _recovery("wait", long)
    yield from _recovery("none", [entry for entry in evidence.waits if entry not in long])


def _recovery(action: ActionKind, weighted: Iterable[tuple[Trial, float]]) -> Iterator[Recovery]:
    trials = list(weighted)
    if not trials:
        return
    worked = [(trial, weight) for trial, weight in trials if trial.worked]
    successes = sum(weight for _, weight in worked)
    failures = sum(weight for _, weight in trials) - successes
    # The longest that helped: the next time it may take as long again.
    delay = max((t.applied.waited_seconds for t, _ in worked), default=0.0) if action == "wait" else 0.0
    yield Recovery(action, None, delay, Tally(len(worked), len(trials), successes, failures))
