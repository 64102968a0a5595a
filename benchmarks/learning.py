"""Measure how advice and prevention steer the retries of a simulated world of failing steps.

`python -m benchmarks.learning --seed 1 --seeds 60 --json`; one seed is noise, 60 make a figure.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.learning_bars import bars, by_kind
from benchmarks.learning_measure import play_prevention, play_seed
from benchmarks.learning_world import World, load_world


def measure(world: World, seeds: Sequence[int], prevention: bool = True) -> dict[str, Any]:
    """Play the seeds and give bars, whether each is met, and the figures by kind of step."""
    played = [play_seed(world, seed) for seed in seeds]
    prevented = [play_prevention(world, seed) for seed in seeds] if prevention else []
    found = bars(world, played, prevented)
    return {
        "seeds": list(seeds),
        "met": all(bar.met for bar in found),
        "bars": [
            {
                "name": bar.name,
                "value": round(bar.value, 4),
                "at_most" if bar.at_most else "at_least": bar.bound,
                "met": bar.met,
            }
            for bar in found
        ],
        "kinds": by_kind(world, played),
    }


def _table(result: dict[str, Any]) -> str:
    lines = []
    for bar in result["bars"]:
        bound = f"<= {bar['at_most']}" if "at_most" in bar else f">= {bar['at_least']}"
        lines.append(f"{'ok  ' if bar['met'] else 'MISS'} {bar['name']:46} {bar['value']:8.4f} {bound}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds are pooled")
    parser.add_argument("--world", type=Path, help="a JSON object with parameters of the world")
    parser.add_argument("--no-prevention", action="store_true", help="leave out the run with prevention")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    world = load_world(given.world) if given.world else World()
    began = perf_counter()
    result = measure(world, range(given.seed, given.seed + given.seeds), not given.no_prevention)
    result["seconds"] = round(perf_counter() - began, 1)
    print(json.dumps(result) if given.json else _table(result))


if __name__ == "__main__":
    main()
