"""Say in one plain sentence why a move is advised."""

from memory.learning.candidates import Candidate
from memory.learning.evidence import Evidence


def seconds(value: float) -> str:
    """Write a duration as people do: `6 s`, `0.5 s`, `2 min`."""
    if value >= 120 and value % 60 == 0:
        return f"{value / 60:.0f} min"
    return f"{round(value, 1):g} s"


def counted(number: int, noun: str) -> str:
    """Write a number with its noun, in the plural where it belongs."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def reason_to_act(evidence: Evidence, chosen: Candidate, title: str) -> str:
    """Tell what is known of the failure and of the chosen action."""
    tally = chosen.tally
    name = chosen.repair or _wait_name(chosen)
    if tally.worked:
        return f"{_known(evidence, title)}; {name} worked {tally.worked} of {tally.tried}"
    if not evidence.trials:
        first = evidence.occurrences <= 1
        return "not yet known: first time here" if first else f"{_known(evidence, title)}; nothing was tried yet"
    tested = "is untried" if tally.tried == 0 else f"has failed {counted(tally.tried, 'time')}"
    helped = "" if evidence.streak.helped else "; nothing has helped yet"
    return f"{_known(evidence, title)}{helped}; {name} {tested}"


def _known(evidence: Evidence, title: str) -> str:
    return f"{title}, known since {evidence.runs[0]}" if evidence.runs else title


def _wait_name(chosen: Candidate) -> str:
    return "a plain retry" if chosen.kind == "retry" else f"waiting {seconds(chosen.delay_seconds)}"


def reason_to_end(evidence: Evidence) -> str:
    """Tell how long nothing has helped."""
    streak = evidence.streak
    failed = f"{counted(streak.length, 'retry')} in {counted(streak.runs, 'run')}"
    if not streak.helped:
        return f"{failed}, nothing helped"
    return f"{_helped_before(evidence)}, but {failed} since then did not help"


def _helped_before(evidence: Evidence) -> str:
    last = next(trial for trial in reversed(evidence.trials) if trial.worked)
    tally = evidence.repairs.get(last.applied.repair or "")
    if tally is not None:
        return f"{last.applied.repair} worked {counted(tally.worked, 'time')} up to {last.run}"
    return f"waiting worked up to {last.run}"
