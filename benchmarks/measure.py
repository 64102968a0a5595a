"""Measure the bars at full size: python -m benchmarks.measure [--data FOLDER] [--seeds N]

Prints a JSON object a part: the learning bench over 60 seeds, what memory costs, what a look-up costs in a large table,
what AnalyzeError costs there beside an empty activity, what a search of tier 2 costs beside a bare query, a projection
of many events after an outage, and, when a folder of labelled texts is given, how well signatures group them and how
well a search finds its answers.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from benchmarks import __main__ as costs
from benchmarks import dispatch, grouping, learning, lookup, projection, retrieval, vector_costs
from benchmarks.learning_world import World


def main() -> int:
    """Run the parts in turn; each is reported as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="errors/*.jsonl, loghub/*_2k.csv, retrieval/SET/*.jsonl")
    parser.add_argument("--seeds", type=int, default=60, help="worlds the learning bench pools")
    parser.add_argument("--times", type=int, default=20, help="how often each cost is measured")
    parser.add_argument("--signatures", type=int, default=lookup.MANY, help="signatures in the large table")
    parser.add_argument("--items", type=int, default=100_000, help="items in the large index")
    parser.add_argument("--events", type=int, default=100_000, help="events projected after an outage")
    parser.add_argument("--opensearch", action="store_true", help="measure OpenSearch too")
    asked = parser.parse_args()
    stores = ("pgvector", "opensearch") if asked.opensearch else ("pgvector",)
    if asked.data is not None:
        _show("grouping", grouping.measure(asked.data))
        for store in stores:
            _show(f"retrieval on {store}", asyncio.run(retrieval.measure(asked.data / "retrieval", store)))
    _show("learning", learning.measure(World(), range(1, asked.seeds + 1)))
    _show("costs", asyncio.run(costs.measure(asked.times)))
    _show("lookup", asyncio.run(lookup.measure(asked.signatures)))
    _show("dispatch", asyncio.run(dispatch.measure(asked.signatures)))
    for store in stores:
        _show(f"search on {store}", vector_costs.measured(store, (10_000, asked.items), 10_000, asked.times * 10))
        _show(f"projection into {store}", asyncio.run(projection.measure(asked.events, store)))
    return 0


def _show(name: str, figures: object) -> None:
    print(json.dumps({name: figures}, indent=1), flush=True)


if __name__ == "__main__":
    sys.exit(main())
