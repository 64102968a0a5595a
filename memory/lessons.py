"""Put evidence into words, by rule: what failed how often, and what ended it. Pure."""

from memory.learning.evidence import Evidence
from memory.learning.pairing import Trial
from memory.learning.wording import counted, seconds


def evidence_text(step: str, title: str, evidence: Evidence) -> str:
    """Tell what failed how often and what ended it.

    As in "serve failed 2 times in 2 runs: port taken. Ended by: free-port (2 of 2)."
    """
    times = counted(evidence.occurrences, "time")
    failed = f"{step or 'This'} failed {times} in {counted(len(evidence.runs), 'run')}: {title}."
    return f"{failed} {_ending(evidence)}"


def _ending(evidence: Evidence) -> str:
    tallies: dict[str, tuple[int, int]] = {}
    for trial in evidence.trials:
        worked, tried = tallies.get(_action(trial), (0, 0))
        tallies[_action(trial)] = (worked + trial.worked, tried + 1)
    helped = [(action, *tally) for action, tally in tallies.items() if tally[0]]
    if helped:
        helped.sort(key=lambda one: (-one[1] / one[2], -one[1], one[0]))
        longest = _longest_wait(evidence)
        told = (f"{longest if name == 'waiting' else name} ({worked} of {tried})" for name, worked, tried in helped)
        return f"Ended by: {', '.join(told)}."
    if evidence.trials:
        return f"Nothing ended it in {counted(len(evidence.trials), 'retry')}."
    return "Nothing has been tried against it yet."


def _action(trial: Trial) -> str:
    if trial.applied.repair is not None:
        return trial.applied.repair
    return "waiting" if trial.applied.waited_seconds > 0 else "a plain retry"


def _longest_wait(evidence: Evidence) -> str:
    waits = [t.applied.waited_seconds for t in evidence.trials if t.worked and t.applied.repair is None]
    return f"waiting {seconds(max(waits, default=0.0))}"


def best_action(evidence: Evidence) -> float | None:
    """Give the confidence in the best action that ever ended the failure, None if none did."""
    tallies = [*evidence.repairs.values(), evidence.plain, *evidence.delays]
    means = [tally.mean for tally in tallies if tally.worked]
    return round(max(means), 2) if means else None
