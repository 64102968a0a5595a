"""A program that follows the journal and says how far it is: what a chaos test kills. Its arguments are JSON."""

import asyncio
import json
import sys
from pathlib import Path

import structlog

from memory.errors import PoimenError
from memory.journal.follow import FollowerSettings
from memory.settings import MemorySettings, OpenSearchSettings
from memory.stores import build_stores
from memory.vectors.project import index_follower

# Small batches to be killed in; and a killed holder's lease must not outlast the test.
SETTINGS = FollowerSettings(batch=25, lease_seconds=1.5)


async def main(postgres_dsn: str, opensearch_url: str, vault: str, tenant: str) -> None:
    """Follow until the process is ended; print the events passed so far after each batch, and 0 when none is left."""
    # Standard output is how far it is.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    search = OpenSearchSettings(urls=(opensearch_url,)) if opensearch_url else None
    stores = build_stores(
        MemorySettings(
            postgres_dsn=postgres_dsn,
            masking_key=b"key of the tests",
            vault_path=Path(vault),
            tenants=(tenant,),
            default_tenant=tenant,
            opensearch=search,
        )
    )
    await stores.open()
    follower, passed = index_follower(stores, tenant, SETTINGS), 0
    while True:
        try:
            stepped = await follower.step()
        except PoimenError:
            stepped = None
        passed += stepped or 0
        if stepped is None:
            await asyncio.sleep(0.1)
        else:
            print(passed if stepped else 0, flush=True)
            await asyncio.sleep(0 if stepped else 0.1)


if __name__ == "__main__":
    asyncio.run(main(**json.loads(sys.argv[1])))
