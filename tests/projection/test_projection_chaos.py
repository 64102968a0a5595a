"""Followers and stores are killed at random in the middle of a long projection; nothing is lost, doubled or back."""

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import uuid
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from memory.settings import MemorySettings, OpenSearchSettings
from memory.stores import build_stores
from memory.verify import Verified
from tests.memory.acted_step import caller
from tests.projection import follower_program
from tests.projection.chaos_stores import RECORD, KillablePostgres, killable_postgres
from tests.projection.conftest import SECONDS, differences, teach
from tests.tcp_proxy import TcpProxy, open_proxy

ITEMS = 600
SEED = 20261129


@dataclass(frozen=True)
class Place:
    """What a follower is told: where the stores and the notes are, and whom it works for."""

    postgres_dsn: str
    opensearch_url: str
    vault: str
    tenant: str

    def settings(self, search: OpenSearchSettings | None) -> MemorySettings:
        """Return the settings of who looks at the stores from this process."""
        return MemorySettings(
            postgres_dsn=self.postgres_dsn,
            masking_key=b"key of the tests",
            vault_path=Path(self.vault),
            tenants=(self.tenant,),
            default_tenant=self.tenant,
            connection_wait_seconds=SECONDS,
            call_deadline_seconds=SECONDS,
            opensearch=search,
        )


@contextlib.asynccontextmanager
async def following(place: Place) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the follower as a program of its own, that can be killed."""
    told = json.dumps(asdict(place))
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


@pytest.fixture(params=["pgvector", "opensearch"])
def search_url(request: pytest.FixtureRequest) -> str:
    """Where OpenSearch is, "" for the index in Postgres."""
    server = request.getfixturevalue("opensearch_server") if request.param == "opensearch" else None
    return str(server.url) if server else ""


@pytest.mark.timeout(400)
async def test_killed_followers_and_stores_lose_nothing_double_nothing_and_bring_nothing_back(
    search_url: str, tmp_path: Path
) -> None:
    chance, proxy, search = random.Random(SEED), None, None
    if search_url:
        proxy = await open_proxy("127.0.0.1", int(search_url.rpartition(":")[2]))
        search = OpenSearchSettings(urls=(search_url,), request_seconds=SECONDS)
    async with killable_postgres(tmp_path / "postgres") as postgres:
        tenant = f"t-{uuid.uuid4().hex}"
        await postgres.sql(RECORD.format(items=ITEMS, tenant=tenant))
        url = f"http://127.0.0.1:{proxy.port}" if proxy else ""
        place = Place(postgres.app_dsn, url, str(tmp_path / "vault"), tenant)
        await _chaos(postgres, proxy, place, chance)
        stores = build_stores(place.settings(search))
        async with contextlib.AsyncExitStack() as closing:
            closing.push_async_callback(stores.close)
            await stores.open()
            learned = await teach(stores, "drain the queue after a kill", by=caller(tenant))
            async with following(place) as follower:
                assert await passed(follower, 1) < ITEMS, "nobody was killed in the middle: the test shows nothing"
                while await passed(follower, 0):
                    continue
            verified = Verified()
            assert await differences(stores, verified, tenant) == []
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


async def _chaos(postgres: KillablePostgres, proxy: TcpProxy | None, place: Place, chance: random.Random) -> None:
    """Kill a follower and a store, each after a share of the events, at a moment that nobody chose."""
    victims = ["follower", "store"]
    chance.shuffle(victims)
    for victim in victims:
        async with following(place) as follower:
            before = await passed(follower, chance.randrange(ITEMS // 8, ITEMS // 4))
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
