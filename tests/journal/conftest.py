"""A pool on a fresh database, as the worker's own role."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from memory.journal import Event, EventKind, Origin, Provenance
from memory.postgres import Pool
from memory.settings import MemorySettings
from tests.fixtures_postgres import Database

MakeEvent = Callable[..., Event]
MakeSettings = Callable[..., MemorySettings]


@pytest.fixture
def make_settings(database: Database) -> MakeSettings:
    """Settings for the test's database; any of them may be given."""

    def make(**values: object) -> MemorySettings:
        given = {"postgres_dsn": database.app_dsn, "masking_key": b"k", "vault_path": Path(), **values}
        return MemorySettings(**given)  # type: ignore[arg-type]

    return make


@pytest_asyncio.fixture(loop_scope="session")
async def pool(make_settings: MakeSettings) -> AsyncIterator[Pool]:
    pool = Pool(make_settings(pool_max_waiting=2000, connection_wait_seconds=10.0))
    await pool.open()
    yield pool
    await pool.close()


@pytest.fixture
def make_event() -> MakeEvent:
    """An event of tenant `local`; any column may be given, the key and the origin too."""

    def make(key: str = "run:step:1:1:analyze", *, origin: Origin = Origin.CALLER, **values: object) -> Event:
        provenance = Provenance(key=key, origin=origin, workflow_id="rel-7", run_id="run-id-1")
        given = {
            "tenant": "local",
            "scope": "acme/api",
            "kind": EventKind.ERROR_ANALYZED,
            "provenance": provenance,
            "payload": {"error": "boom"},
            "run": "rel-7",
            **values,
        }
        return Event(**given)  # type: ignore[arg-type]

    return make
