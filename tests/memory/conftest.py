"""A memory over a real database of the test's own, and steps that report to it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from memory.settings import MemorySettings
from memory.stores import Stores, build_stores
from tests.fixtures_postgres import Database
from tests.tcp_proxy import TcpProxy

OpenProxy = Callable[[str, int], Awaitable[TcpProxy]]


@pytest.fixture
def settings(database: Database, tmp_path: Path) -> MemorySettings:
    return MemorySettings(
        postgres_dsn=database.app_dsn,
        masking_key=b"key of the tests",
        vault_path=tmp_path / "vault",
        tenants=("local", "other"),
        pool_min_size=1,
        pool_max_size=4,
        # The machine that runs the tests may be busy; what is late is tested with deadlines of its own.
        connection_wait_seconds=20.0,
        call_deadline_seconds=20.0,
    )


@pytest_asyncio.fixture(loop_scope="session")
async def stores(settings: MemorySettings) -> AsyncIterator[Stores]:
    built = build_stores(settings)
    await built.pool.open()
    yield built
    await built.pool.close()


@pytest_asyncio.fixture(loop_scope="session")
async def proxy(database: Database, tcp_proxy: OpenProxy) -> TcpProxy:
    """A proxy in front of the test's database, passing everything on."""
    return await tcp_proxy(database.server.host, database.server.port)


@pytest_asyncio.fixture(loop_scope="session")
async def proxied(settings: MemorySettings, database: Database, proxy: TcpProxy) -> AsyncIterator[Stores]:
    """Stores behind the proxy, with the waits of production."""
    through = replace(
        settings,
        postgres_dsn=database.app_dsn_through(proxy),
        connection_wait_seconds=0.7,
        call_deadline_seconds=1.2,
    )
    built = build_stores(through)
    await built.pool.open()
    yield built
    # A pool takes its time to give up connections that nobody answers.
    await proxy.pass_on()
    await built.pool.close()
