"""Put what came of a run into a few sentences, by rule: how it ended, what was decided, what failed and what ended it.

Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from memory.learning.wording import counted, seconds
from memory.producers.keep import shortened
from poimen.contracts.memory_calls import AttemptRecord, DocumentDecision

LONGEST_SENTENCE: Final = 300
LONGEST_SUMMARY: Final = 2_000
MOST_STEPS: Final = 30
MOST_DECISIONS: Final = 8
MOST_FAILURES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTold:
    """What is on record of a run: its name, its decisions in order, and the artifacts its steps named."""

    name: str
    decisions: Sequence[DocumentDecision]
    artifacts: Sequence[str] = ()

    @property
    def final(self) -> DocumentDecision | None:
        """The latest end of the run; None while it is going on."""
        return next((one for one in reversed(self.decisions) if one.kind == "run_final"), None)

    @property
    def steps(self) -> list[DocumentDecision]:
        """The ends of its step executions."""
        return [one for one in self.decisions if one.kind == "step_completion" and one.step]


def summary_title(told: RunTold) -> str:
    """Name the run and its end, as in "release-checks succeeded (run rel-41)"."""
    final = told.final
    ended = (final.end or "ended") if final else "is not ended"
    return f"{final.definition} {ended} (run {told.name})" if final and final.definition else f"Run {told.name} {ended}"


def summary_text(told: RunTold) -> str:
    """Tell what came of the run, at most 2,000 characters."""
    lines = [
        _outcome(told),
        _listed("Steps", dict.fromkeys(_step(one) for one in told.steps), MOST_STEPS),
        _listed("Decided", dict.fromkeys(_decisions(told.steps)), MOST_DECISIONS),
        _listed("Failed", dict.fromkeys(_failures(told)), MOST_FAILURES),
        _listed("Left behind", told.artifacts, MOST_STEPS),
    ]
    return shortened("\n".join(line for line in lines if line), LONGEST_SUMMARY)


def _outcome(told: RunTold) -> str:
    final = told.final
    attempts = sum(len(one.attempts) for one in told.steps)
    spent = [counted(attempts, "attempt")] if attempts else []
    if final is not None and final.seconds is not None:
        spent.append(seconds(final.seconds))
    said = _one_line(final.decision) if final else "not ended yet"
    return f"{said} ({', '.join(spent)})." if spent else f"{said}."


def _step(one: DocumentDecision) -> str:
    return one.step or "" if one.end == "succeeded" else f"{one.step} ({one.end})"


def _decisions(steps: Iterable[DocumentDecision]) -> Iterator[str]:
    for one in steps:
        # Without a decision of its own the end stands in its place.
        if one.decision != one.end and not one.decision.startswith(f"{one.end}:"):
            yield f"{one.step}: {_one_line(one.decision)}"


def _failures(told: RunTold) -> Iterator[str]:
    for one in told.steps:
        for attempt, following in zip_longest(one.attempts, one.attempts[1:]):
            if attempt.outcome == "failed" and attempt.title:
                yield f"{one.step}: {_one_line(attempt.title)}, {_ending(attempt, following)}"
    for one in told.decisions:
        if one.kind == "gate" and " failed" in one.decision:
            yield _one_line(one.decision)


def _ending(attempt: AttemptRecord, following: AttemptRecord | None) -> str:
    if following is None:
        return "not ended"
    applied = following.applied
    waited = f"waiting {seconds(applied.waited_seconds)}" if applied.waited_seconds > 0 else "a plain retry"
    ended = following.outcome == "succeeded" or following.signature != attempt.signature
    return f"{'ended' if ended else 'not ended'} by {applied.repair or waited}"


def _listed(name: str, said: Iterable[str], most: int) -> str:
    all_said = list(said)
    more = f"; {len(all_said) - most} more" if len(all_said) > most else ""
    return f"{name}: {'; '.join(all_said[:most])}{more}." if all_said else ""


def _one_line(text: str) -> str:
    return shortened(" ".join(text.split()), LONGEST_SENTENCE).rstrip(".")
