"""Measure how advice and prevention steer the retries of a simulated world of failing steps.

`python -m benchmarks.learning --seed 1 --seeds 60 --json`; one seed is noise, 60 make a figure. With `--store` a few
seeds go through the real use cases and a real PostgreSQL.
"""

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.learning_altered import altered_worlds
from benchmarks.learning_bars import Bar, bars, by_kind
from benchmarks.learning_measure import play_prevention, play_seed
from benchmarks.learning_store import play_stored
from benchmarks.learning_world import World, load_world
from benchmarks.stores import fresh_stores


def measure(world: World, seeds: Sequence[int], prevention: bool = True) -> dict[str, Any]:
    """Play the seeds and give bars, whether each is met, and the figures by kind of step."""
    played = [play_seed(world, seed) for seed in seeds]
    prevented = [play_prevention(world, seed) for seed in seeds] if prevention else []
    found = bars(world, played, prevented)
    return {
        "seeds": list(seeds),
        "met": all(bar.met for bar in found),
        "bars": [_shown(bar) for bar in found],
        "kinds": by_kind(world, played),
    }


async def measure_stored(world: World, seeds: Sequence[int]) -> dict[str, Any]:
    """Play the seeds through the real store and give the bars, and every decision that the advice alone differs on."""
    async with fresh_stores() as stores:
        played = await play_stored(world, seeds, stores)
    return {
        "seeds": list(seeds),
        "decisions": played.decisions,
        "differences": [one._asdict() for one in played.differences],
        "bars": [_shown(bar) for bar in bars(world, played.rows, [])],
    }


def measure_altered(seeds: Sequence[int]) -> dict[str, Any]:
    """Play the seeds in every altered world, without prevention, and give what misses its bar there."""
    return {
        "seeds": list(seeds),
        "worlds": {name: measure(world, seeds, prevention=False)["bars"] for name, world in altered_worlds()},
    }


def _misses(result: dict[str, Any]) -> str:
    lines = []
    for world, figures in result["worlds"].items():
        missed = [f"{one['name']} {one['value']}" for one in figures if not one["met"]]
        lines.append(f"{world:26} {'; '.join(missed) or 'every bar is met'}")
    return "\n".join(lines)


def _shown(bar: Bar) -> dict[str, Any]:
    bound = "at_most" if bar.at_most else "at_least"
    return {"name": bar.name, "value": round(bar.value, 4), bound: bar.bound, "met": bar.met}


def _table(result: dict[str, Any]) -> str:
    lines = []
    for bar in result["bars"]:
        bound = f"<= {bar['at_most']}" if "at_most" in bar else f">= {bar['at_least']}"
        lines.append(f"{'ok  ' if bar['met'] else 'MISS'} {bar['name']:46} {bar['value']:8.4f} {bound}")
    if "decisions" in result:
        lines.append(f"{len(result['differences'])} of {result['decisions']} decisions differ from the advice alone")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds are pooled")
    parser.add_argument("--world", type=Path, help="a JSON object with parameters of the world")
    parser.add_argument("--no-prevention", action="store_true", help="leave out the run with prevention")
    parser.add_argument("--altered", action="store_true", help="worlds with one parameter halved or doubled")
    parser.add_argument("--store", action="store_true", help="through the real store, without prevention")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    world = load_world(given.world) if given.world else World()
    began = perf_counter()
    seeds = range(given.seed, given.seed + given.seeds)
    if given.altered:
        result = measure_altered(seeds)
    elif given.store:
        result = asyncio.run(measure_stored(world, seeds))
    else:
        result = measure(world, seeds, not given.no_prevention)
    result["seconds"] = round(perf_counter() - began, 1)
    print(json.dumps(result) if given.json else _misses(result) if given.altered else _table(result))


if __name__ == "__main__":
    main()
