"""The activities over a real database, called as the server calls them."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.converter import default
from temporalio.testing import ActivityEnvironment

from activities.boundary import MemoryActivities
from memory.settings import MemorySettings
from memory.stores import Stores, build_stores
from tests.fixtures_postgres import Database
from tests.tcp_proxy import TcpProxy

_activities = itertools.count(1)
Call = Callable[..., Awaitable[dict[str, Any]]]


@pytest_asyncio.fixture(loop_scope="session")
async def stores(database: Database, tmp_path: Path) -> AsyncIterator[Stores]:
    built = build_stores(
        MemorySettings(
            postgres_dsn=database.app_dsn,
            masking_key=b"key of the tests",
            vault_path=tmp_path,
            connection_wait_seconds=20.0,
            call_deadline_seconds=20.0,
        )
    )
    await built.pool.open()
    yield built
    await built.pool.close()


@pytest_asyncio.fixture(loop_scope="session")
async def call_down(
    stores: Stores, database: Database, tcp_proxy: Callable[[str, int], Awaitable[TcpProxy]]
) -> AsyncIterator[Call]:
    """As `call`, over a Postgres that refuses every connection."""
    proxy = await tcp_proxy(database.server.host, database.server.port)
    through = database.app_dsn_through(proxy)
    await proxy.refuse()
    settings = replace(stores.settings, postgres_dsn=through, connection_wait_seconds=0.3)
    down = build_stores(settings)
    await down.pool.open()
    yield caller_of(down)
    await down.pool.close()


@pytest.fixture
def call(stores: Stores) -> Call:
    """Call an activity with a value, or with the bytes of a JSON text; `info` changes what the activity is told."""
    return caller_of(stores)


def caller_of(stores: Stores) -> Call:
    """Call the activities of some stores, as `call` does."""
    known = {run.__temporal_activity_definition.name: run for run in MemoryActivities(stores).all()}

    async def run(name: str, value: Any = ..., **info: Any) -> dict[str, Any]:
        environment = ActivityEnvironment()
        now = datetime.now(UTC)
        given = {
            "activity_id": str(next(_activities)),
            "started_time": now,
            "scheduled_time": now,
            "start_to_close_timeout": timedelta(seconds=30),
            "schedule_to_close_timeout": timedelta(seconds=30),
            **info,
        }
        environment.info = replace(environment.info, **given)
        arguments = [] if value is ... else [RawValue(_payload(value))]
        return await environment.run(known[name], *arguments)

    return run


def _payload(value: Any) -> Payload:
    if isinstance(value, bytes):
        return Payload(metadata={"encoding": b"json/plain"}, data=value)
    return default().payload_converter.to_payload(value)
