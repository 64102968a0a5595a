"""Measure AnalyzeError as an activity beside an empty one on the same queue, in a table of a thousand signatures and in
one of a million.

`python -m benchmarks.dispatch --rows 1000000 --json`; a real dev server, a real worker, and the plan of each look-up.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final, LiteralString

import structlog
from temporalio.client import Client
from temporalio.worker import Worker

from activities.boundary import MemoryActivities
from benchmarks.costs import CallMany, nothing, ratio
from benchmarks.lookup import DEADLINE_SECONDS, FEW, MANY, fill
from benchmarks.stores import fresh_stores
from memory.analyze import analyze
from memory.items import SQL as ITEMS
from memory.items import lesson_id
from memory.journal import Origin, Provenance
from memory.learn import learn
from memory.observations import SQL as OBSERVATIONS
from memory.observations import observations
from memory.postgres import tenant_transaction
from memory.signatures import signatures_of
from memory.stores import Caller, Stores
from poimen.contracts.memory_calls import AnalyzeError, AppliedAction, LearnFromExecution
from worker.bootstrap import RUNNER
from worker.stack.state import choose_ports
from worker.stack.temporal import TemporalPorts, temporal_server

ROUNDS: Final = 5
"""The tables are asked in turn, so that a busy moment of the machine falls on both."""
KNOWN_RUNS: Final = 20
PLACE: Final = {"scope": "scope-0", "step": "step-1"}
ERROR: Final = "ValueError: no key"
FAILURE: Final = {"error": ERROR, "repairs": ["mend"], "attempts_left": 3}
KEYS: Final = tuple(signature.key for signature in signatures_of(ERROR))
"""The failure's key by the rules of today, then by earlier ones."""
LESSON: Final = lesson_id(PLACE["scope"], PLACE["step"], KEYS[0])
LOOK_UPS: Final[dict[str, tuple[LiteralString, dict[str, object]]]] = {
    "observations": (OBSERVATIONS["observations"], observations(PLACE["scope"], [LESSON], KEYS[1:]).values),
    "item": (ITEMS["item"], {"id": LESSON}),
    "told_lessons": (ITEMS["told_lessons"], {**PLACE, "limit": 2}),
    "run_name": (OBSERVATIONS["run_name"], {"run": "known-0"}),
}


async def measure(rows: int, times: int = 100) -> dict[str, Any]:
    """Give what AnalyzeError costs at a thousand signatures and at `rows` beside an empty activity, and its plans."""
    sizes = list(dict.fromkeys((FEW, rows)))
    # The figures go to stdout.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    took: dict[int, dict[str, list[float]]] = {size: {"AnalyzeError": [], "Nothing": []} for size in sizes}
    async with contextlib.AsyncExitStack() as parts:
        client = await parts.enter_async_context(_server())
        told: dict[int, dict[str, Any]] = {}
        for size in sizes:
            told[size] = await parts.enter_async_context(_worker(client, size))
            await _call(client, size, 10)  # connections, plans and pages as they are after a while
        for _ in range(ROUNDS):
            for size in sizes:
                for name, found in (await _call(client, size, -(-times // ROUNDS))).items():
                    took[size][name] += found
    costs = {size: ratio(took[size]["AnalyzeError"], took[size]["Nothing"]) for size in sizes}
    return {
        "signatures": {str(size): {"AnalyzeError": costs[size], "plans": told[size]} for size in sizes},
        "grown": round(costs[rows]["ratio"] / costs[FEW]["ratio"], 2),
    }


@contextlib.asynccontextmanager
async def _server() -> AsyncIterator[Client]:
    with tempfile.TemporaryDirectory() as name:
        folder, ports = Path(name), choose_ports(["grpc", "http"])
        places = TemporalPorts(ports["grpc"], ports["http"])
        async with temporal_server(places, log=folder / "temporal.log", folder=folder / "t") as temporal:
            yield await Client.connect(temporal.address)


@contextlib.asynccontextmanager
async def _worker(client: Client, size: int) -> AsyncIterator[dict[str, Any]]:
    """Run a worker over a table of so many signatures that knows the failure; give the plans of its look-ups."""
    async with fresh_stores(fill(size)) as stores:
        for number in range(KNOWN_RUNS):
            await teach(stores, f"known-{number}")
        told = await plans(stores)
        async with Worker(
            client,
            task_queue=f"signatures-{size}",
            activities=[*MemoryActivities(stores).all(), nothing],
            workflows=[CallMany],
            workflow_runner=RUNNER,
        ):
            yield told


async def teach(stores: Stores, run: str) -> None:
    """Report the failure, and that a repair ended it, as a run of its own."""
    mended = AppliedAction(kind="repair", repair="mend", exit_code=0)
    failed = AnalyzeError.model_validate({**PLACE, **FAILURE, "run": run})
    await analyze(failed, _caller(run), stores)
    ended = LearnFromExecution(**PLACE, run=run, attempt=2, outcome="succeeded", applied=mended)
    await learn(ended, _caller(run), stores)


def _caller(run: str) -> Caller:
    told = Provenance(key=uuid.uuid4().hex, origin=Origin.CALLER, workflow_id=run)
    return Caller("local", told, DEADLINE_SECONDS)


async def _call(client: Client, size: int, times: int) -> dict[str, list[float]]:
    """Call both activities in turn, each time as a run of its own, and give the milliseconds by name."""
    found: dict[str, list[float]] = await client.execute_workflow(
        CallMany.run,
        {"activities": ["Nothing", "AnalyzeError"], "message": {**PLACE, **FAILURE}, "times": times, "numbered": True},
        id=f"calls-{uuid.uuid4().hex[:8]}",
        task_queue=f"signatures-{size}",
    )
    return found


async def plans(stores: Stores) -> dict[str, dict[str, Any]]:
    """Explain every look-up of the failure."""
    return {name: await _plan(stores, query, values) for name, (query, values) in LOOK_UPS.items()}


async def _plan(stores: Stores, query: LiteralString, values: dict[str, object]) -> dict[str, Any]:
    """Explain a look-up: how often each index was probed, which tables were read from end to end, rows thrown away."""
    async with tenant_transaction(stores.pool, "local", deadline_seconds=DEADLINE_SECONDS) as tx:
        explained: LiteralString = f"explain (analyze, format json) {query}"
        row = await tx.row(explained, **values)
    nodes = list(_nodes(row["QUERY PLAN"][0]["Plan"])) if row else []
    probes: dict[str, int] = {}
    for node in nodes:
        if "Index Name" in node and node["Actual Loops"]:
            probes[node["Index Name"]] = probes.get(node["Index Name"], 0) + round(node["Actual Loops"])
    removed = ("Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter")
    return {
        "probes": probes,
        "read_in_full": sorted({node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"}),
        "thrown_away": round(sum(node.get(why, 0) * node["Actual Loops"] for node in nodes for why in removed)),
    }


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for under in node.get("Plans", ()):
        yield from _nodes(under)


def main() -> int:
    """Read the command line and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=MANY, help="signatures in the large table")
    parser.add_argument("--times", type=int, default=100, help="how often each activity is called")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    asked = parser.parse_args()
    found = asyncio.run(measure(asked.rows, asked.times))
    if asked.json:
        print(json.dumps(found, indent=1))
        return 0
    for size, told in found["signatures"].items():
        cost = told["AnalyzeError"]
        print(f"{int(size):>9,} signatures: AnalyzeError {cost['ratio']} × an empty activity ({cost['median_ms']} ms)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
