"""Worlds that differ from the public one in one parameter, halved or doubled."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from benchmarks.learning_world import World

CHANCES: Final = (
    "incident_rates",
    "flaky_chances",
    "repair_chance",
    "several_chances",
    "churn",
    "environment_switch",
    "transient_share",
    "permanent_share",
    "mixed_flaky_chance",
)
SIZES: Final = ("delay_medians", "delay_sigma", "longest_delay", "delays", "long_delay")
WEAK_CURES: Final = World(repair_chance=0.8, several_chances=(0.2, 0.3, 0.4), flaky_chances=(0.2, 0.3, 0.4))


def altered_worlds() -> Iterator[tuple[str, World]]:
    """Give each world with what it alters; chances end at 1.

    More attempts than the public world has are left out: the oracle's plans grow with their power.
    """
    public = World()
    for name in (*CHANCES, *SIZES):
        for factor in (0.5, 2.0):
            scaled = _scaled(getattr(public, name), factor, 1.0 if name in CHANCES else None)
            yield f"{name} × {factor:g}", replace(public, **{name: scaled})
    yield "repairs × 2", replace(public, repairs=tuple(2 * count for count in public.repairs))
    yield "attempts - 1", replace(public, attempts=public.attempts - 1)
    yield "runs × 2", replace(public, runs=2 * public.runs)
    yield "churn 0.2", replace(public, churn=0.2)
    yield "weak cures", WEAK_CURES


def _scaled(value: Any, factor: float, most: float | None) -> Any:
    if isinstance(value, tuple):
        return tuple(_scaled(one, factor, most) for one in value)
    return value * factor if most is None else min(value * factor, most)
