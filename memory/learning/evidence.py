"""Fold the attempts of one key (tenant, scope, step, signature) into evidence."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import accumulate, takewhile
from math import ceil, log
from typing import Final

from memory.learning.outcomes import ActionKind, AppliedAction, Attempt, Outcome, StepOutcome
from memory.learning.pairing import Occurrence, Trial, Tried, occurrences_of, retried, trials_of, tried_in

__all__ = [
    "DELAYS",
    "ActionKind",
    "AppliedAction",
    "Attempt",
    "Evidence",
    "Outcome",
    "StepOutcome",
    "Streak",
    "Tally",
    "Tried",
    "fold",
    "tried_in",
]

DELAYS: Final = tuple(float(2**power) for power in range(13))
"""Delays that are counted, in seconds since the signature first failed: 1 s to a little over an hour."""

PLAIN_WAIT_SECONDS: Final = 8.0
LATE_SECONDS: Final = 0.5  # timers fire late: a success this much later still credits the delay
AGE_DECAY: Final = 0.9  # for each later occurrence of the key
OTHER_ENVIRONMENT: Final = 0.5
CHANGED: Final = 0.02  # of the occurrences are the first after a silent change
PAST_DECAY: Final = 0.97  # for each later trial, in the rate that sets how long a streak must be
RARE: Final = 0.0003
NEVER_HELPED: Final = 16
SHORTEST_STREAK, LONGEST_STREAK, LONGEST_DOUBLED = 6, 30, 48


@dataclass(frozen=True, slots=True)
class Tally:
    """How often an action was tried and worked: plain counts for people, weights for choosing."""

    worked: int = 0
    tried: int = 0
    successes: float = 0.0
    failures: float = 0.0

    @property
    def mean(self) -> float:
        """Give the expected chance of success, 0.3 when nothing is known."""
        return (self.successes + 0.3) / (self.successes + self.failures + 1)


@dataclass(frozen=True, slots=True)
class Streak:
    """The failed retries since the last success of the key.

    `needed` is the length from which the streak may mean a permanent failure; `helped` is false when nothing
    ever ended the signature.
    """

    trials: tuple[Trial, ...] = ()
    needed: int = NEVER_HELPED
    helped: bool = False

    @property
    def length(self) -> int:
        """Give the number of failed retries."""
        return len(self.trials)

    @property
    def runs(self) -> int:
        """Give the number of distinct runs."""
        return len({trial.run for trial in self.trials})

    @property
    def environments(self) -> int:
        """Give the number of distinct environments."""
        return len({trial.environment for trial in self.trials})


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one signature in one step, seen from one environment.

    `runs` are the distinct runs, oldest first. `weighted` are all trials with their weights, `waits` those
    without a repair. Of the occurrences before the one at hand, `last_retried` holds
    the trials of the latest in which anything was tried, `idle` counts those since in which nothing was
    retried, and `earlier_here` all those of this environment.
    """

    signature: str
    environment: str
    occurrences: int = 0
    runs: tuple[str, ...] = ()
    repairs: Mapping[str, Tally] = field(default_factory=dict)
    plain: Tally = Tally()
    weighted: tuple[tuple[Trial, float], ...] = ()
    waits: tuple[tuple[Trial, float], ...] = ()
    streak: Streak = Streak()
    trials: tuple[Trial, ...] = ()
    last_retried: tuple[Trial, ...] = ()
    idle: int = 0
    earlier_here: int = 0

    @property
    def known(self) -> bool:
        """Say whether anything was tried against the signature in an occurrence before the one at hand."""
        return bool(self.last_retried)

    @property
    def first_run(self) -> str | None:
        """Give the run in which the signature was first seen; it may be the one at hand."""
        return next(iter(self.runs), None)

    @property
    def last_helped_run(self) -> str | None:
        """Give the run in which something last ended the signature."""
        return next((trial.run for trial in reversed(self.trials) if trial.worked), None)

    @property
    def helped_here(self) -> bool:
        """Say whether anything ever ended the signature in this environment."""
        return any(trial.worked and trial.environment == self.environment for trial in self.trials)

    @property
    def delays(self) -> tuple[Tally, ...]:
        """Tally every counted delay."""
        return tuple(self.delay(seconds) for seconds in DELAYS)

    def delay(self, seconds: float) -> Tally:
        """Tally a delay since the signature first failed.

        A success credits every delay at least as long, a failure debits every delay at most as long.
        """
        return _tally([(trial, weight) for trial, weight in self.waits if _tells(trial, seconds)], self.environment)

    def repair_after(self, failed: Set[str], repair: str) -> Tally:
        """Tally a repair in the occurrences where the `failed` ones had been applied in vain before it."""
        return _counted([(t, w) for t, w in self.weighted if t.applied.repair == repair and failed <= t.before])

    def delay_after(self, failed: Set[str], seconds: float) -> Tally:
        """Tally a delay in the occurrences where the `failed` repairs had been applied in vain before it."""
        return _counted([(t, w) for t, w in self.waits if failed <= t.before and _tells(t, seconds)])


def _tells(trial: Trial, seconds: float) -> bool:
    if trial.worked:
        return trial.elapsed_seconds <= seconds + LATE_SECONDS
    return trial.elapsed_seconds >= seconds


def fold(attempts: Iterable[Attempt], signature: str, environment: str, occurrence: str | None = None) -> Evidence:
    """Turn the attempts of the occurrences that contain the signature into evidence.

    `occurrence` is the one at hand, if any. Neither the order of the records nor repeated ones matter.
    """
    occurrences = occurrences_of(attempts, signature)
    trials = [t for at, one in enumerate(occurrences) for t in trials_of(one, signature, at)]
    weights = _weights(trials, occurrences, occurrence, environment)
    waits = [(t, w) for t, w in zip(trials, weights, strict=True) if t.applied.repair is None]
    earlier = [one for one in occurrences if one.id != occurrence]
    return Evidence(
        signature=signature,
        environment=environment,
        occurrences=len(occurrences),
        runs=tuple(dict.fromkeys(one.run for one in occurrences)),
        repairs=_repair_tallies(trials, weights, environment),
        plain=_tally([(t, w) for t, w in waits if t.applied.waited_seconds <= PLAIN_WAIT_SECONDS], environment),
        weighted=tuple(zip(trials, weights, strict=True)),
        waits=tuple(waits),
        streak=_streak(trials),
        trials=tuple(trials),
        last_retried=_last_retried(trials, occurrences, occurrence),
        idle=_idle(earlier, signature),
        earlier_here=sum(one.environment == environment for one in earlier),
    )


def _weights(
    trials: Sequence[Trial], occurrences: Sequence[Occurrence], at_hand: str | None, environment: str
) -> list[float]:
    """Weigh each trial by its age, and by half when it is of another environment.

    What happens in another environment does not make the record of this one older.
    """
    # The occurrence at hand has told nothing yet that would make the earlier ones older.
    told = [one.id != at_hand for one in occurrences]
    everywhere = _ages(told)
    here = _ages([new and one.environment == environment for new, one in zip(told, occurrences, strict=True)])
    return [
        AGE_DECAY ** here[t.position]
        if t.environment == environment
        else OTHER_ENVIRONMENT * AGE_DECAY ** everywhere[t.position]
        for t in trials
    ]


def _ages(counts: Sequence[bool]) -> list[int]:
    """Give for each position how many of the later ones count."""
    later = [0, *accumulate(reversed(counts[1:]))] if counts else []
    return later[::-1]


def _tally(weighted: Sequence[tuple[Trial, float]], environment: str) -> Tally:
    counted = _counted(weighted)
    return replace(counted, successes=counted.successes * _unchanged([trial for trial, _ in weighted], environment))


def _counted(weighted: Sequence[tuple[Trial, float]]) -> Tally:
    worked = [weight for trial, weight in weighted if trial.worked]
    failed = [weight for trial, weight in weighted if not trial.worked]
    return Tally(len(worked), len(weighted), sum(worked), sum(failed))


def _unchanged(trials: Sequence[Trial], environment: str) -> float:
    """Give the chance that the failures since an action last worked are no more than chance.

    What seldom failed before is soon doubted; what failed now and then is not. Where the action has worked in this
    environment, failures in another do not count.
    """
    here = any(trial.worked and trial.environment == environment for trial in trials)
    told = [trial for trial in trials if not here or trial.environment == environment]
    last = max((at for at, trial in enumerate(told) if trial.worked), default=None)
    if last is None or last + 1 == len(told):
        return 1.0
    weights = [PAST_DECAY ** (last - at) for at in range(last + 1)]
    succeeded = sum(weight for weight, trial in zip(weights, told, strict=False) if trial.worked)
    rate = (succeeded + 0.5) / (sum(weights) + 1)
    by_chance: float = (1 - rate) ** (len(told) - last - 1)
    return by_chance / (by_chance + CHANGED)


def _repair_tallies(trials: Sequence[Trial], weights: Sequence[float], environment: str) -> dict[str, Tally]:
    grouped: dict[str, list[tuple[Trial, float]]] = {}
    for trial, weight in zip(trials, weights, strict=True):
        if trial.applied.repair is not None:
            grouped.setdefault(trial.applied.repair, []).append((trial, weight))
    return {repair: _tally(weighted, environment) for repair, weighted in sorted(grouped.items())}


def _streak(trials: Sequence[Trial]) -> Streak:
    tried = succeeded = 0.0
    overturned, start = 0, 0
    past: tuple[float, float] | None = None  # successes and trials up to the last success
    for index, trial in enumerate(trials):
        tried = tried * PAST_DECAY + 1
        succeeded = succeeded * PAST_DECAY + trial.worked
        if trial.worked:
            overturned += _was_verdict(trials[start:index], past, overturned)
            past, start = (succeeded, tried), index + 1
    return Streak(tuple(trials[start:]), _needed(past, overturned), past is not None)


def _was_verdict(ended: Sequence[Trial], past: tuple[float, float] | None, overturned: int) -> bool:
    long = len(ended) >= SHORTEST_STREAK and len(ended) >= _needed(past, overturned)
    return long and len({trial.run for trial in ended}) >= 2


def _needed(past: tuple[float, float] | None, overturned: int) -> int:
    """Give the failed retries in a row that chance alone gives but rarely, within bounds."""
    if past is None:
        return NEVER_HELPED
    succeeded, tried = past
    rate = (succeeded + 0.5) / (tried + 1)
    by_chance = min(max(ceil(log(RARE) / log(1 - rate)), SHORTEST_STREAK), LONGEST_STREAK)
    doubled: int = by_chance * 2**overturned
    return min(doubled, max(LONGEST_DOUBLED, by_chance))


def _last_retried(trials: Sequence[Trial], occurrences: Sequence[Occurrence], at_hand: str | None) -> tuple[Trial, ...]:
    earlier = [trial for trial in trials if occurrences[trial.position].id != at_hand]
    return tuple(trial for trial in earlier if trial.position == earlier[-1].position)


def _idle(earlier: Sequence[Occurrence], signature: str) -> int:
    return sum(1 for _ in takewhile(lambda one: not retried(one, signature), reversed(earlier)))
