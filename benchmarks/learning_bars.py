"""Turn the played seeds into figures, and hold them against the bars."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from benchmarks.learning_measure import Cost, Prevented, Row
from benchmarks.learning_world import World

NEAR_DRIFT = 8
"""Occurrences after a drift that a net false stop leaves out."""

PLAIN_KINDS = ("transient", "one_repair", "same_signature", "flaky", "harmful_first")
ANNOUNCED = ("repair_announced", "permanent_to_repair_announced")
CURE_SILENT = ("repair_silent", "delay_silent")
PERMANENT_SILENT = ("permanent_to_repair", "permanent_to_transient")
GIVES_UP = ("permanent_to_repair", "permanent_or_flaky", "permanent", "cure_to_permanent")


class Bar(NamedTuple):
    """A figure and the bound it must keep: at most, or at least."""

    name: str
    value: float
    bound: float
    at_most: bool = True

    @property
    def met(self) -> bool:
        """Say whether the figure keeps its bound."""
        return self.value <= self.bound if self.at_most else self.value >= self.bound


def _total(rows: Iterable[Row], cost: Callable[[Row], Cost], what: str) -> float:
    return float(sum(getattr(cost(row), what) for row in rows))


def _ratio(rows: Sequence[Row], what: str) -> float:
    oracle = _total(rows, lambda row: row.oracle, what)
    memory = _total(rows, lambda row: row.memory, what)
    return memory / oracle if oracle else 1.0


def _of(rows: Iterable[Row], kinds: Iterable[str]) -> list[Row]:
    wanted = set(kinds)
    return [row for row in rows if row.kind in wanted]


def _share(flags: Sequence[bool], empty: float) -> float:
    return sum(flags) / len(flags) if flags else empty


def false_stops(rows: Sequence[Row]) -> tuple[float, float]:
    """Give the shares of false stops: net of those soon after a drift, and gross."""
    stops = [row for row in rows if row.stopped]
    near = [row for row in stops if not 0 < row.since_drift <= NEAR_DRIFT]
    return _share([row.false_stop for row in near], 0.0), _share([row.false_stop for row in stops], 0.0)


def healed(seeds: Sequence[Sequence[Row]], kinds: Sequence[str], within: int) -> float:
    """Give the share of drifted steps that were as good as the oracle twice in a row soon enough."""
    flags = []
    for rows in seeds:
        steps: dict[tuple[int, str], list[Row]] = defaultdict(list)
        for row in _of(rows, kinds):
            if row.since_drift:
                steps[row.step].append(row)
        for drifted in steps.values():
            good = [_as_good(row) for row in drifted]
            first = next((at + 1 for at in range(len(good) - 1) if good[at] and good[at + 1]), None)
            if first is not None or len(drifted) > within:
                flags.append(first is not None and first <= within)
    return _share(flags, 1.0)


def _as_good(row: Row) -> bool:
    return row.memory.attempts <= row.oracle.attempts and row.memory.recovered >= row.oracle.recovered


def bars(world: World, seeds: Sequence[Sequence[Row]], prevented: Sequence[Prevented]) -> list[Bar]:
    """Give every bar with its figure, pooled over the seeds."""
    late = [[row for row in rows if row.run >= world.measured_from] for rows in seeds]
    pooled = [row for rows in late for row in rows]
    net, gross = false_stops(pooled)
    found = [
        Bar("attempts ratio, all", _ratio(pooled, "attempts"), 1.15),
        Bar("attempts ratio, worst seed", max(_ratio(rows, "attempts") for rows in late), 1.25),
        Bar("attempts ratio, permanent", _ratio(_of(pooled, ["permanent"]), "attempts"), 1.85),
        *(Bar(f"attempts ratio, {kind}", _ratio(_of(pooled, [kind]), "attempts"), 1.05) for kind in PLAIN_KINDS),
        Bar("attempts ratio, curable to permanent", _ratio(_of(pooled, ["cure_to_permanent"]), "attempts"), 2.0),
        Bar("recovery ratio", _ratio(pooled, "recovered"), 0.96, at_most=False),
        Bar("wait ratio", _ratio(pooled, "waited"), 3.2),
        Bar("false stops, net", net, 0.01),
        Bar("false stops, gross", gross, 0.05),
        Bar("announced change healed within 5", healed(seeds, ANNOUNCED, 5), 0.95, at_most=False),
        Bar("cure to cure, silent, healed within 5", healed(seeds, CURE_SILENT, 5), 0.90, at_most=False),
        Bar("permanent to cure, silent, healed within 8", healed(seeds, PERMANENT_SILENT, 8), 0.90, at_most=False),
        *_against_static(pooled),
        Bar("first occurrences worse than the step alone", _worse_at_first(seeds), 0.0),
    ]
    return [*found, *_prevention(prevented)]


def _against_static(pooled: Sequence[Row]) -> list[Bar]:
    kinds = sorted({row.kind for row in pooled})
    attempts, recovery = [], []
    for kind in kinds:
        rows = _of(pooled, [kind])
        attempts.append(
            _total(rows, lambda row: row.memory, "attempts") / _total(rows, lambda row: row.static, "attempts")
        )
        static = _total(rows, lambda row: row.static, "recovered")
        if static and kind not in GIVES_UP:
            recovery.append(_total(rows, lambda row: row.memory, "recovered") / static)
    return [
        Bar("attempts against the step alone, worst kind", max(attempts, default=1.0), 1.0),
        Bar("recovery against the step alone, worst kind", min(recovery, default=1.0), 1.0, at_most=False),
    ]


def _worse_at_first(seeds: Sequence[Sequence[Row]]) -> float:
    """Give the share of first occurrences that took more attempts than the step alone, or were given up."""
    firsts = [row for rows in seeds for row in {row.step: row for row in reversed(rows)}.values()]
    return _share([_worse(row) for row in firsts], 0.0)


def _worse(row: Row) -> bool:
    return row.memory.attempts > row.static.attempts or row.memory.recovered < row.static.recovered


def _prevention(prevented: Sequence[Prevented]) -> list[Bar]:
    if not prevented:
        return []
    sums = Prevented(*(sum(column) for column in zip(*prevented, strict=True)))
    return [
        Bar("prevention, attempts ratio", sums.attempts / max(sums.oracle_attempts, 1), 1.35),
        Bar("prevention, needless", sums.needless / max(sums.preventions, 1), 0.30),
    ]


def by_kind(world: World, seeds: Sequence[Sequence[Row]]) -> dict[str, dict[str, float]]:
    """Give attempts and recovery of each policy an occurrence, for every kind of step."""
    pooled = [row for rows in seeds for row in rows if row.run >= world.measured_from]
    table: dict[str, dict[str, float]] = {}
    for kind in [*sorted({row.kind for row in pooled}), "all"]:
        rows = pooled if kind == "all" else _of(pooled, [kind])
        figures: dict[str, Any] = {"occurrences": len(rows), "attempts_ratio": _ratio(rows, "attempts")}
        for name in ("static", "oracle", "memory"):
            for what in ("attempts", "recovered", "waited"):
                total = sum(getattr(getattr(row, name), what) for row in rows)
                figures[f"{name}_{what}"] = total / len(rows)
        table[kind] = {key: round(value, 3) for key, value in figures.items()}
    return table
