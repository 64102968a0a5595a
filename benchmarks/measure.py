"""Measure the bars at full size: python -m benchmarks.measure [--data FOLDER] [--seeds N]

Prints a JSON object a part: the learning bench over 60 seeds, what memory costs, what a look-up costs in a large table,
what AnalyzeError costs there beside an empty activity, and, when a folder of labelled texts is given, how well
signatures group them.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from benchmarks import __main__ as costs
from benchmarks import dispatch, grouping, learning, lookup
from benchmarks.learning_world import World


def main() -> int:
    """Run the parts in turn; each is reported as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder with errors/*.jsonl and loghub/*_2k.csv")
    parser.add_argument("--seeds", type=int, default=60, help="worlds the learning bench pools")
    parser.add_argument("--times", type=int, default=20, help="how often each cost is measured")
    parser.add_argument("--signatures", type=int, default=lookup.MANY, help="signatures in the large table")
    asked = parser.parse_args()
    if asked.data is not None:
        _show("grouping", grouping.measure(asked.data))
    _show("learning", learning.measure(World(), range(1, asked.seeds + 1)))
    _show("costs", asyncio.run(costs.measure(asked.times)))
    _show("lookup", asyncio.run(lookup.measure(asked.signatures)))
    _show("dispatch", asyncio.run(dispatch.measure(asked.signatures)))
    return 0


def _show(name: str, figures: object) -> None:
    print(json.dumps({name: figures}, indent=1), flush=True)


if __name__ == "__main__":
    sys.exit(main())
