"""Stores over a PostgreSQL of their own: real, fresh, on loopback, gone afterwards."""

import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from memory.postgres.migrate import migrate
from memory.settings import MemorySettings
from memory.stores import Stores, build_stores
from worker.stack.postgres import RunningPostgres, postgres_server
from worker.stack.state import choose_ports


@contextlib.asynccontextmanager
async def fresh_stores(scripts: Iterable[str] = ()) -> AsyncIterator[Stores]:
    """Give open stores over a migrated database in which the scripts have run."""
    async with contextlib.AsyncExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory()))
        port = choose_ports(["postgres"])["postgres"]
        postgres: RunningPostgres = await parts.enter_async_context(
            postgres_server(folder / "postgres", port=port, log=folder / "postgres.log")
        )
        await migrate(postgres.owner_dsn)
        for script in scripts:
            await postgres.run_sql(script, postgres.dsn("postgres"))
        (folder / "vault").mkdir()
        settings = MemorySettings(
            postgres_dsn=postgres.app_dsn,
            masking_key=b"a key for benchmarks",
            vault_path=folder / "vault",
            # A busy machine is measured, not refused.
            connection_wait_seconds=8.0,
            call_deadline_seconds=8.0,
        )
        stores = build_stores(settings)
        await stores.pool.open()
        parts.push_async_callback(stores.pool.close)
        yield stores
