"""Measure what memory costs and print it as JSON: python -m benchmarks [--times N]"""

import argparse
import asyncio
import json
import os
import platform
import sys
from typing import Any

from benchmarks import costs
from benchmarks.servers import bench


async def measure(times: int) -> dict[str, Any]:
    """Run every cost benchmark in one process, against one set of servers."""
    async with bench(more_activities=(costs.nothing,), more_workflows=(costs.CallMany,)) as running:
        return {
            "machine": {"python": platform.python_version(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
            "times": times,
            "step_with_memory": await costs.step_with_memory(running, times),
            "context_against_nothing": await costs.context_against_nothing(running, times * 10),
            "append_against_insert": await costs.append_against_insert(running, times * 20),
            "step_without_postgres": await costs.step_without_postgres(running, max(3, times // 4)),
        }


def main() -> int:
    """Read the command line and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=12, help="how often each thing is measured")
    parser.add_argument("--data", help="not used: these figures need no data")
    asked = parser.parse_args()
    print(json.dumps(asyncio.run(measure(asked.times)), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
