"""Measure a projection after an outage: python -m benchmarks.projection [--events N] [--opensearch]

Many events wait; a follower brings them into the index, by words alone, while it and the database are killed in the
middle. Tells how long it took, and what `poimen verify` finds afterwards.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import structlog

from memory.journal.follow import FollowerSettings
from memory.settings import MemorySettings, OpenSearchSettings
from memory.stores import Stores, build_stores
from memory.vectors.project import index_follower
from memory.verify import Verified, verify
from tests.projection.chaos_stores import RECORD, KillablePostgres, killable_postgres
from worker.stack.child import on_free_ports
from worker.stack.opensearch import OpenSearchPorts, opensearch_server
from worker.stack.opensearch_build import default_cache
from worker.stack.state import choose_ports

TENANT = "local"
# Of 11 events 10 make an item and 1 retires one.
EVENTS_AN_ITEM = 1.1
SETTINGS = FollowerSettings(lease_seconds=2.0, poll_seconds=0.1, longest_pause_seconds=1.0)


async def measure(events: int, store: str) -> dict[str, Any]:
    """Return the rate, and what was lost, doubled or brought back."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    async with contextlib.AsyncExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory()))
        search = await parts.enter_async_context(_opensearch(folder)) if store == "opensearch" else None
        postgres = await parts.enter_async_context(killable_postgres(folder / "postgres"))
        await postgres.sql(RECORD.format(items=round(events / EVENTS_AN_ITEM), tenant=TENANT))
        stores = build_stores(
            MemorySettings(
                postgres_dsn=postgres.app_dsn,
                masking_key=b"a key for benchmarks",
                vault_path=folder / "vault",
                connection_wait_seconds=8.0,
                opensearch=search,
            )
        )
        await stores.open()
        parts.push_async_callback(stores.close)
        # The index that a tenant gets from what is on record would leave nothing to follow.
        generation = await stores.index.begin(TENANT, deadline_seconds=60)
        await stores.index.promote(TENANT, generation.number, deadline_seconds=60)
        began = time.monotonic()
        await _followed(stores, postgres, events // 2)
        seconds = time.monotonic() - began
        return {"store": store, "seconds": round(seconds, 1), **await _found(stores, events, seconds)}


async def _followed(stores: Stores, postgres: KillablePostgres, kill_after: int) -> None:
    """Follow until nothing is left; half way the follower is cut short and the database is killed."""
    passed, killed = 0, False
    follower = index_follower(stores, TENANT, SETTINGS)
    while True:
        with contextlib.suppress(Exception):
            stepped = await follower.step()
            # 0 is no end by itself: events wait, too, for transactions that began before theirs.
            if stepped == 0 and not (await follower.lag()).events:
                return
            passed += stepped or 0
        if passed >= kill_after and not killed:
            killed = True
            cut_short = asyncio.create_task(follower.step())
            await asyncio.sleep(0.05)
            cut_short.cancel()
            await postgres.kill()
            follower = index_follower(stores, TENANT, SETTINGS)


async def _found(stores: Stores, events: int, seconds: float) -> dict[str, Any]:
    verified = Verified()
    began = time.monotonic()
    differing = [difference async for difference in verify(stores, TENANT, verified)]
    return {
        "events": verified.counts["events"],
        "events_per_second": round(events / seconds),
        "items": verified.counts["items"],
        "entries": verified.counts["entries"],
        "differences": len(differing),
        "not_followed": verified.waiting,
        "verify_seconds": round(time.monotonic() - began, 1),
    }


@contextlib.asynccontextmanager
async def _opensearch(folder: Path) -> AsyncIterator[OpenSearchSettings]:
    async with on_free_ports(
        lambda: OpenSearchPorts(*choose_ports(["http", "transport"]).values()),
        lambda ports: opensearch_server(folder / "node", ports=ports, log=folder / "log", cache=default_cache()),
    ) as server:
        yield OpenSearchSettings(urls=(server.url,), request_seconds=30.0)


def main() -> int:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--opensearch", action="store_true", help="OpenSearch, and not PostgreSQL")
    asked = parser.parse_args()
    store = "opensearch" if asked.opensearch else "pgvector"
    print(json.dumps(asyncio.run(measure(asked.events, store)), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
