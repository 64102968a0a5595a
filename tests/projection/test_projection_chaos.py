"""Followers and stores are killed at random in the middle of a long projection; nothing is lost, doubled or back."""

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memory.settings import MemorySettings, OpenSearchSettings
from memory.stores import Stores, build_stores
from memory.verify import Verified
from tests.projection import follower_program
from tests.projection.chaos_stores import RECORD, KillablePostgres, killable_postgres
from tests.projection.conftest import SECONDS, differences, teach
from tests.tcp_proxy import TcpProxy, open_proxy

ITEMS = 600
SEED = 20261129


@contextlib.asynccontextmanager
async def following(dsn: str, opensearch_url: str, vault: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the follower as a program of its own, that can be killed."""
    told = json.dumps({"postgres_dsn": dsn, "opensearch_url": opensearch_url, "vault": str(vault)})
    process = await asyncio.create_subprocess_exec(
        sys.executable, follower_program.__file__, told,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()


@contextlib.asynccontextmanager
async def opened(dsn: str, vault: Path, search: OpenSearchSettings | None) -> AsyncIterator[Stores]:
    """Stores that look, from this process."""
    built = build_stores(
        MemorySettings(
            postgres_dsn=dsn,
            masking_key=b"key of the tests",
            vault_path=vault,
            connection_wait_seconds=SECONDS,
            call_deadline_seconds=SECONDS,
            opensearch=search,
        )
    )
    await built.open()
    yield built
    await built.close()


@pytest.fixture(params=["pgvector", "opensearch"])
def search_url(request: pytest.FixtureRequest) -> str:
    """Where OpenSearch is, "" for the index in Postgres."""
    server = request.getfixturevalue("opensearch_server") if request.param == "opensearch" else None
    return str(server.url) if server else ""


async def test_killed_followers_and_stores_lose_nothing_double_nothing_and_bring_nothing_back(
    search_url: str, tmp_path: Path
) -> None:
    chance, proxy, search = random.Random(SEED), None, None
    if search_url:
        proxy = await open_proxy("127.0.0.1", int(search_url.rpartition(":")[2]))
        search = OpenSearchSettings(urls=(search_url,), request_seconds=SECONDS)
    async with killable_postgres(tmp_path / "postgres") as postgres:
        await postgres.sql(RECORD.format(items=ITEMS))
        url = f"http://127.0.0.1:{proxy.port}" if proxy else ""
        await _chaos(postgres, url, proxy, tmp_path, chance)
        async with opened(postgres.app_dsn, tmp_path, search) as stores:
            learned = await teach(stores, "drain the queue after a kill")
            async with following(postgres.app_dsn, url, tmp_path) as follower:
                assert await passed(follower, 1) < ITEMS, "nobody was killed in the middle: the test shows nothing"
                while await passed(follower, 0):
                    continue
            verified = Verified()
            assert await differences(stores, verified) == []
            assert verified.counts["entries"] == verified.counts["items"] == ITEMS + len(learned)
            assert await postgres.sql("select count(*) from dead_letters;") == "0"
    if proxy:
        await proxy.close()


async def passed(follower: asyncio.subprocess.Process, least: int) -> int:
    """Wait until a follower says that it has passed so many events, or a batch more; return how many."""
    assert follower.stdout is not None
    async with asyncio.timeout(60):
        while True:
            said = int(await follower.stdout.readline())
            if said >= least:
                return said


async def _chaos(
    postgres: KillablePostgres, url: str, proxy: TcpProxy | None, vault: Path, chance: random.Random
) -> None:
    """Kill two followers and a store, each after a share of the events, at a moment that nobody chose."""
    victims = ["follower", "store", "follower"]
    chance.shuffle(victims)
    for victim in victims:
        async with following(postgres.app_dsn, url, vault) as follower:
            before = await passed(follower, chance.randrange(ITEMS // 8, ITEMS // 5))
            await asyncio.sleep(chance.uniform(0.0, 0.05))
            if victim == "follower":
                follower.send_signal(signal.SIGKILL)
            elif proxy is not None:
                await proxy.refuse()
                await asyncio.sleep(chance.uniform(0.2, 0.6))
                await proxy.pass_on()
            else:
                await postgres.kill()
            if victim == "store":
                await passed(follower, before + 1)
