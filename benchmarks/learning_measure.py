"""Play one seed of the world under every policy and keep what each occurrence cost."""

from collections import defaultdict
from typing import NamedTuple

from benchmarks.learning_oracle import success
from benchmarks.learning_policies import Knowing, Memory, Play, Policy, Static, play_step
from benchmarks.learning_world import Cell, World, cells

HOPE = 0.3
"""A stop is false when an admissible action still succeeds with this chance."""


class Cost(NamedTuple):
    """What one occurrence cost one policy."""

    attempts: int
    recovered: bool
    waited: float


class Row(NamedTuple):
    """One occurrence: a step execution whose attempt 1 fails. `since_drift` counts from 1, 0 before."""

    kind: str
    step: tuple[int, str]
    run: int
    since_drift: int
    static: Cost
    oracle: Cost
    memory: Cost
    stopped: bool
    false_stop: bool


class Prevented(NamedTuple):
    """The totals of the run with prevention on, over step executions that would have failed."""

    attempts: int
    oracle_attempts: int
    preventions: int
    needless: int
    oracle_preventions: int
    oracle_needless: int


def play_seed(world: World, seed: int, memory: Policy | None = None) -> list[Row]:
    """Play every occurrence of one seed, nothing prevented; the advice code alone unless another memory is given."""
    static, oracle, memory = Static(world), Knowing(world), memory or Memory(world)
    since: dict[tuple[int, str], int] = defaultdict(int)
    rows = []
    for cell in cells(world, seed):
        if cell.draws.incident >= cell.rate:
            continue
        step = (cell.scope, cell.step)
        since[step] += cell.drifted
        played = play_step(cell, world, memory)
        rows.append(
            Row(
                cell.kind,
                step,
                cell.run,
                since[step],
                _cost(cell, world, static),
                _cost(cell, world, oracle),
                Cost(played.attempts, played.recovered, played.waited),
                played.stopped,
                played.stopped and _hopeful(played, world, oracle),
            )
        )
    return rows


def _cost(cell: Cell, world: World, policy: Policy) -> Cost:
    play = play_step(cell, world, policy)
    return Cost(play.attempts, play.recovered, play.waited)


def _hopeful(play: Play, world: World, oracle: Knowing) -> bool:
    situation, left = play.cell.situation, world.attempts - play.attempts
    options = oracle.oracle.options(situation, play.stage, play.cell.repairs, play.acts, left)
    return any(success(situation, play.stage, play.acts, act) >= HOPE for act in options)


def play_prevention(world: World, seed: int) -> Prevented:
    """Play one seed with prevention on, healthy step executions too."""
    memory, oracle = Memory(world, preventing=True), Knowing(world, preventing=True)
    totals = [0] * 6
    for cell in cells(world, seed):
        incident = cell.draws.incident < cell.rate
        ours, best = play_step(cell, world, memory), play_step(cell, world, oracle)
        if cell.run < world.measured_from:
            continue
        added = (
            ours.attempts * incident,
            best.attempts * incident,
            ours.prevented is not None,
            ours.prevented is not None and not incident,
            best.prevented is not None,
            best.prevented is not None and not incident,
        )
        totals = [total + one for total, one in zip(totals, added, strict=True)]
    return Prevented(*totals)
