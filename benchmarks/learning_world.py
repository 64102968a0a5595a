"""A world of failing steps: what may fail, what ends it, and every draw of chance, made before anybody acts."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError


class Cause(NamedTuple):
    """Why an attempt fails.

    Any retry succeeds with `chance`; a retry succeeds once the drawn delay (log-normal, `median` seconds) is
    over; repair i works with `repairs[i]`; after a repair that is `harmful` no repair works any more.
    """

    chance: float = 0.0
    median: float = 0.0
    sigma: float = 0.25
    repairs: tuple[float, ...] = ()
    harmful: tuple[bool, ...] = ()


class Stage(NamedTuple):
    """One signature and the causes that may be behind it, with their weights."""

    signature: str
    causes: tuple[tuple[float, Cause], ...]


Situation = tuple[Stage, ...]
"""The stages that a failing step must get through, in order."""


class Draws(NamedTuple):
    """The chance of one run of one step: the same for every policy."""

    incident: float
    cause: tuple[float, ...]
    delay: tuple[float, ...]
    attempts: tuple[float, ...]


class Cell(NamedTuple):
    """One run of one step in one scope: how likely it fails, from what, and its draws."""

    scope: int
    step: str
    kind: str
    run: int
    environment: str
    rate: float
    situation: Situation
    repairs: int
    drifted: bool
    draws: Draws


PUBLIC_STEPS = {
    "transient": 4,
    "one_repair": 4,
    "several_repairs": 2,
    "permanent": 4,
    "flaky": 3,
    "harmful_first": 1,
    "stacked": 1,
    "repair_silent": 1,
    "repair_announced": 1,
    "delay_silent": 1,
    "cure_to_permanent": 1,
    "permanent_to_repair": 1,
    "permanent_to_repair_announced": 1,
    "permanent_to_transient": 1,
    "environment": 1,
    "same_signature": 2,
    "transient_or_repair": 1,
    "permanent_or_flaky": 1,
}


@dataclass(frozen=True)
class World:
    """Every parameter of the world; the defaults are the public world. Delays are in seconds."""

    scopes: int = 2
    runs: int = 60
    attempts: int = 4
    delays: tuple[float, ...] = (1.0, 2.0, 4.0)
    longest_delay: float = 64.0
    steps: dict[str, int] = field(default_factory=lambda: dict(PUBLIC_STEPS))
    incident_rates: tuple[float, ...] = (1.0, 0.6, 0.3)
    repairs: tuple[int, ...] = (2, 3, 4)
    delay_medians: tuple[float, ...] = (3.0, 10.0, 25.0, 50.0)
    delay_sigma: float = 0.25
    flaky_chances: tuple[float, ...] = (0.3, 0.5, 0.8)
    repair_chance: float = 0.95
    several_chances: tuple[float, ...] = (0.3, 0.6, 0.9)
    drift_runs: tuple[int, int] = (25, 35)
    short_delay: tuple[float, float] = (3.0, 5.0)
    long_delay: tuple[float, float] = (25.0, 40.0)
    churn: float = 0.03
    environment_switch: float = 0.1
    transient_share: float = 0.5
    permanent_share: float = 0.75
    mixed_flaky_chance: float = 0.9
    measured_from: int = 20

    def own_delay(self, retry: int) -> float:
        """Give the step's own delay before a retry, the first being 0."""
        return self.delays[min(retry, len(self.delays) - 1)]


def load_world(path: Path) -> World:
    """Read a world from a JSON object of its parameters; the others keep their defaults."""
    given: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    unknown = sorted(set(given) - {one.name for one in fields(World)})
    if unknown:
        raise SystemExit(f"{path.name}: a world has no parameter {', '.join(unknown)}.")
    try:
        world = TypeAdapter(World).validate_python(given)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise SystemExit(f"{path.name}: {'.'.join(map(str, wrong['loc']))}: {wrong['msg']}.") from None
    strange = sorted(set(world.steps) - set(PUBLIC_STEPS))
    if strange:
        raise SystemExit(f"{path.name}: no steps of the kind {', '.join(strange)}.")
    if min(world.repairs) < 2:
        raise SystemExit(f"{path.name}: every step needs at least 2 repairs.")
    return world


class StepPlan(NamedTuple):
    """One step of a scope: how often it fails and how, before and after its drift."""

    name: str
    kind: str
    rate: float
    repairs: int
    before: Situation
    after: Situation
    drift_run: int | None
    announced: bool
    switching: bool


class _Causes:
    """Draw the causes of one step."""

    def __init__(self, world: World, chance: Random, repairs: int) -> None:
        self.world, self.chance, self.repairs = world, chance, repairs
        self.none = (0.0,) * repairs

    def permanent(self) -> Cause:
        return Cause(repairs=self.none)

    def flaky(self, chance: float | None = None) -> Cause:
        drawn = self.chance.choice(self.world.flaky_chances)
        return Cause(chance=drawn if chance is None else chance, repairs=self.none)

    def transient(self, median: float | None = None) -> Cause:
        drawn = self.chance.choice(self.world.delay_medians)
        return Cause(median=drawn if median is None else median, sigma=self.world.delay_sigma, repairs=self.none)

    def between(self, bounds: tuple[float, float]) -> Cause:
        return self.transient(self.chance.uniform(*bounds))

    def repair(self, right: int) -> Cause:
        return Cause(repairs=tuple(self.world.repair_chance if i == right else 0.0 for i in range(self.repairs)))

    def several(self) -> Cause:
        return Cause(repairs=tuple(self.chance.choice(self.world.several_chances) for _ in range(self.repairs)))

    def harmful_first(self) -> Cause:
        cause = self.repair(self.chance.randrange(1, self.repairs))
        return cause._replace(harmful=tuple(i == 0 for i in range(self.repairs)))

    def two_rights(self) -> tuple[int, int]:
        first, second = self.chance.sample(range(self.repairs), 2)
        return first, second


def _stage(*causes: Cause | tuple[float, Cause], signature: str = "first") -> Stage:
    return Stage(signature, tuple((1.0, c) if isinstance(c, Cause) else c for c in causes))


def _situations(kind: str, draw: _Causes) -> tuple[Situation, Situation | None]:
    """Give a step's situation before and after its drift (None: it never drifts)."""
    world = draw.world
    first, second = draw.two_rights()
    steady: dict[str, Callable[[], Cause]] = {
        "transient": draw.transient,
        "one_repair": lambda: draw.repair(first),
        "several_repairs": draw.several,
        "permanent": draw.permanent,
        "flaky": draw.flaky,
        "harmful_first": draw.harmful_first,
        "same_signature": lambda: draw.repair(first),
    }
    if kind in steady:
        return (_stage(steady[kind]()),), None
    if kind == "stacked":
        return (_stage(draw.repair(first)), _stage(draw.repair(second), signature="second")), None
    if kind == "transient_or_repair":
        share = world.transient_share
        return (_stage((share, draw.transient()), (1 - share, draw.repair(first))),), None
    if kind == "permanent_or_flaky":
        share = world.permanent_share
        flaky = draw.flaky(world.mixed_flaky_chance)
        return (_stage((share, draw.permanent()), (1 - share, flaky)),), None
    before, after = _drift(kind, draw, first, second)
    return (_stage(before),), (_stage(after),)


def _drift(kind: str, draw: _Causes, first: int, second: int) -> tuple[Cause, Cause]:
    if kind == "delay_silent":
        return draw.between(draw.world.short_delay), draw.between(draw.world.long_delay)
    if kind == "permanent_to_transient":
        return draw.permanent(), draw.transient()
    if kind == "cure_to_permanent":
        return draw.repair(first), draw.permanent()
    if kind.startswith("permanent_to_repair"):
        return draw.permanent(), draw.repair(first)
    return draw.repair(first), draw.repair(second)


def _plan(world: World, chance: Random, kind: str, number: int) -> StepPlan:
    repairs = chance.choice(world.repairs)
    before, after = _situations(kind, _Causes(world, chance, repairs))
    switching = kind == "environment"
    drifting = after is not None and not switching
    return StepPlan(
        name=f"{kind}-{number}",
        kind=kind,
        rate=chance.choice(world.incident_rates),
        repairs=repairs,
        before=before,
        after=after or before,
        drift_run=chance.randint(*world.drift_runs) if drifting else None,
        announced=kind.endswith("announced"),
        switching=switching,
    )


def cells(world: World, seed: int) -> Iterator[Cell]:
    """Give every run of every step, run by run, with its draws."""
    chance = Random(seed)  # noqa: S311 because a simulation must repeat
    plans = [
        (scope, _plan(world, chance, kind, number))
        for scope in range(world.scopes)
        for kind, count in world.steps.items()
        for number in range(count)
    ]
    versions = [0] * len(plans)
    elsewhere = [False] * len(plans)
    for run in range(world.runs):
        for at, (scope, plan) in enumerate(plans):
            versions[at] += chance.random() < world.churn
            elsewhere[at] ^= plan.switching and chance.random() < world.environment_switch
            drifted = plan.drift_run is not None and run >= plan.drift_run
            situation = plan.after if drifted or elsewhere[at] else plan.before
            mark = f"{int(drifted and plan.announced)}{int(elsewhere[at])}"
            environment = f"{scope}/{versions[at]}/{mark}"
            draws = _draws(world, chance)
            yield Cell(
                scope,
                plan.name,
                plan.kind,
                run,
                environment,
                plan.rate,
                situation,
                plan.repairs,
                drifted,
                draws,
            )


def _draws(world: World, chance: Random) -> Draws:
    pair = (chance.random(), chance.random())
    return Draws(
        chance.random(),
        pair,
        (chance.gauss(0, 1), chance.gauss(0, 1)),
        tuple(chance.random() for _ in range(world.attempts)),
    )
