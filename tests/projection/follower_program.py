"""A program that follows the journal and says how far it is: what a chaos test kills. Its arguments are JSON."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

import structlog

from memory.errors import PoimenError
from memory.journal.follow import FollowerSettings
from memory.settings import MemorySettings
from memory.stores import Stores, build_stores
from memory.vectors.project import index_follower

# Small batches to be killed in; and a killed holder's lease must not outlast the test.
SETTINGS = FollowerSettings(batch=10, lease_seconds=1.0)


async def follow_on(stores: Stores, say: Callable[[int], None]) -> None:
    """Follow until it is ended; say the events passed so far after each batch, and 0 when none is left."""
    follower, passed = index_follower(stores, stores.settings.default_tenant, SETTINGS), 0
    while True:
        try:
            stepped = await follower.step()
        except PoimenError:
            stepped = None
        passed += stepped or 0
        if stepped is not None:
            say(passed if stepped else 0)
        await asyncio.sleep(0 if stepped else 0.1)


async def main(postgres_dsn: str, vault: str, tenant: str) -> None:
    """Follow with the index in Postgres, and print how far it is."""
    # Standard output is how far it is.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    settings = MemorySettings(
        postgres_dsn=postgres_dsn,
        masking_key=b"key of the tests",
        vault_path=Path(vault),
        tenants=(tenant,),
        default_tenant=tenant,
    )
    stores = build_stores(settings)
    await stores.open()
    await follow_on(stores, lambda passed: print(passed, flush=True))


if __name__ == "__main__":
    asyncio.run(main(**json.loads(sys.argv[1])))
