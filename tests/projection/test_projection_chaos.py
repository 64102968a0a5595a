"""Followers and stores are killed at random in the middle of a long projection; nothing is lost, doubled or back."""

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from memory.settings import MemorySettings, OpenSearchSettings
from memory.stores import build_stores
from memory.verify import Verified
from tests.fixtures_postgres import Database
from tests.memory.acted_step import caller
from tests.projection import follower_program
from tests.projection.chaos_stores import RECORD, killable_postgres
from tests.projection.conftest import SECONDS, differences, teach
from tests.projection.follower_program import follow_on
from tests.tcp_proxy import TcpProxy
from worker.stack.opensearch import RunningOpenSearch

ITEMS = 200
SEED = 20261129
Said = asyncio.Queue[int]
Following = Callable[[MemorySettings], contextlib.AbstractAsyncContextManager[Said]]
KillStore = Callable[[], Awaitable[None]]


@contextlib.asynccontextmanager
async def here(settings: MemorySettings) -> AsyncIterator[Said]:
    """Follow in this process; the end of the block cuts it off wherever it is, and its lease is left."""
    stores, said = build_stores(settings), Said()
    await stores.open()
    following = asyncio.create_task(follow_on(stores, said.put_nowait))
    try:
        yield said
    finally:
        following.cancel()
        await asyncio.wait({following})
        await stores.close()


@contextlib.asynccontextmanager
async def apart(settings: MemorySettings) -> AsyncIterator[Said]:
    """Follow in a process of its own, which the end of the block kills."""
    told = {
        "postgres_dsn": settings.postgres_dsn,
        "vault": str(settings.vault_path),
        "tenant": settings.default_tenant,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, follower_program.__file__, json.dumps(told),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    said, out = Said(), process.stdout
    assert out is not None

    async def read() -> None:
        while line := await out.readline():
            said.put_nowait(int(line))

    reading = asyncio.create_task(read())
    try:
        yield said
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await reading


def a_tenant(settings: MemorySettings, **changes: object) -> MemorySettings:
    """Return the settings for a tenant of its own."""
    tenant = f"t-{uuid.uuid4().hex}"
    return replace(settings, tenants=(tenant,), default_tenant=tenant, **changes)  # type: ignore[arg-type]


@pytest.mark.timeout(200)
async def test_killed_followers_and_a_killed_database_lose_nothing_double_nothing_and_bring_nothing_back(
    settings: MemorySettings, tmp_path: Path
) -> None:
    async with killable_postgres(tmp_path / "postgres") as postgres:
        own = a_tenant(settings, postgres_dsn=postgres.app_dsn)
        await postgres.sql(RECORD.format(items=ITEMS, tenant=own.default_tenant))
        await _chaos(own, {"process": apart, "task": here}, postgres.kill)
        await _nothing_is_lost(own)
        assert await postgres.sql("select count(*) from dead_letters;") == "0"


@pytest.mark.timeout(400)
async def test_killed_followers_and_an_unreachable_opensearch_lose_nothing_double_nothing_and_bring_nothing_back(
    settings: MemorySettings,
    database: Database,
    opensearch_server: RunningOpenSearch,
    tcp_proxy: Callable[[str, int], Awaitable[TcpProxy]],
) -> None:
    proxy = await tcp_proxy("127.0.0.1", int(opensearch_server.url.rpartition(":")[2]))
    search = OpenSearchSettings(urls=(f"http://127.0.0.1:{proxy.port}",), request_seconds=SECONDS)
    own = a_tenant(settings, opensearch=search)
    await database.run_sql(RECORD.format(items=ITEMS, tenant=own.default_tenant))

    async def lose() -> None:
        await proxy.refuse()
        await asyncio.sleep(0.2)
        await proxy.pass_on()

    await _chaos(own, {"task": here}, lose)
    await _nothing_is_lost(own)
    assert await database.run_sql("select count(*) from dead_letters;") == "0\n"


async def _chaos(settings: MemorySettings, followers: dict[str, Following], kill_store: KillStore) -> None:
    """Kill each kind of follower and the store, each after a share of the events, at a moment that nobody chose."""
    chance = random.Random(SEED)
    victims = ["store", *followers]
    chance.shuffle(victims)
    for victim in victims:
        async with followers.get(victim, here)(settings) as said:
            before = await passed(said, chance.randrange(ITEMS // 8, ITEMS // 4))
            await asyncio.sleep(chance.uniform(0.0, 0.05))
            if victim == "store":
                await kill_store()
                await passed(said, before + 1)


async def _nothing_is_lost(settings: MemorySettings) -> None:
    """Follow to the end and compare; what is learned after the kills is there too."""
    tenant, stores = settings.default_tenant, build_stores(settings)
    async with contextlib.AsyncExitStack() as closing:
        closing.push_async_callback(stores.close)
        await stores.open()
        learned = await teach(stores, "drain the queue after a kill", by=caller(tenant))
        async with here(settings) as said:
            assert await passed(said, 1) < ITEMS, "nobody was killed in the middle: the test shows nothing"
            while await passed(said, 0):
                continue
        verified = Verified()
        assert await differences(stores, verified, tenant) == []
        assert verified.counts["entries"] == verified.counts["items"] == ITEMS + len(learned)
        assert verified.waiting == 0


async def passed(said: Said, least: int) -> int:
    """Wait until a follower says that it has passed so many events, or a batch more; return how many."""
    async with asyncio.timeout(60):
        while (events := await said.get()) < least:
            continue
        return events
