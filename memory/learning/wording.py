"""Say in one plain sentence why a move is advised."""

from dataclasses import dataclass

from memory.learning.candidates import Candidate
from memory.learning.evidence import Evidence


@dataclass(frozen=True, slots=True)
class FailureName:
    """What people call a failure, and the names of the runs that a sentence may point to.

    `first_run` saw it first, in `last_helped_run` something ended it last; None leaves the run out, as for the
    run at hand.
    """

    title: str = "this failure"
    first_run: str | None = None
    last_helped_run: str | None = None


def seconds(value: float) -> str:
    """Write a duration as people do: `6 s`, `0.5 s`, `2 min`."""
    if value >= 120 and value % 60 == 0:
        return f"{value / 60:.0f} min"
    return f"{round(value, 1):g} s"


def counted(number: int, noun: str) -> str:
    """Write a number with its noun, in the plural where it belongs."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def reason_for_own_order(evidence: Evidence, name: FailureName) -> str:
    """Tell why the step goes on as it would without memory."""
    first = evidence.occurrences <= 1
    known = "not yet known: first time here" if first else f"{_known(name)}; nothing was tried yet"
    return f"{known}; the step's own order"


def reason_to_act(evidence: Evidence, chosen: Candidate, name: FailureName) -> str:
    """Tell what is known of the failure and of the chosen action."""
    tally = chosen.tally
    action = chosen.repair or _wait_name(chosen)
    if tally.worked:
        return f"{_known(name)}; {action} worked {tally.worked} of {tally.tried}"
    tested = "is untried" if tally.tried == 0 else f"has failed {counted(tally.tried, 'time')}"
    helped = "" if evidence.streak.helped else "; nothing has helped yet"
    return f"{_known(name)}{helped}; {action} {tested}"


def _known(name: FailureName) -> str:
    return f"{name.title}, known since {name.first_run}" if name.first_run else name.title


def _wait_name(chosen: Candidate) -> str:
    return "a plain retry" if chosen.kind == "retry" else f"waiting {seconds(chosen.delay_seconds)}"


def reason_to_end(evidence: Evidence, name: FailureName) -> str:
    """Tell how long nothing has helped."""
    streak = evidence.streak
    failed = f"{counted(streak.length, 'retry')} in {counted(streak.runs, 'run')}"
    if not streak.helped:
        return f"{failed}, nothing helped"
    return f"{_helped_before(evidence, name)}, but {failed} since then did not help"


def _helped_before(evidence: Evidence, name: FailureName) -> str:
    last = next(trial for trial in reversed(evidence.trials) if trial.worked)
    tally = evidence.repairs.get(last.applied.repair or "")
    helped = "waiting worked" if tally is None else f"{last.applied.repair} worked {counted(tally.worked, 'time')}"
    return f"{helped} up to {name.last_helped_run}" if name.last_helped_run else helped
