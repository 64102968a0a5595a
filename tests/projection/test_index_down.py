"""OpenSearch is down, silent or slow: calls keep their deadlines and say so, and the index follows once it is back."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from memory.errors import StoreUnavailable
from memory.health import health
from memory.journal.follow import Follower, FollowerSettings
from memory.recall import recall
from memory.settings import MemorySettings, OpenSearchSettings
from memory.stores import Stores, build_stores
from memory.vectors.opensearch_mapping import index_of
from memory.vectors.project import index_follower
from poimen.contracts.memory_calls import GetContext
from tests.memory.acted_step import caller
from tests.projection.conftest import SCOPE, SECONDS, differences, follow, teach
from tests.tcp_proxy import TcpProxy
from worker.stack.opensearch import RunningOpenSearch

DEADLINE = 1.2
# The machine may be busy; what is not bounded at all takes many times as long.
AT_MOST = DEADLINE + 1.0
OpenProxy = Callable[[str, int], Awaitable[TcpProxy]]


@pytest_asyncio.fixture(loop_scope="session")
async def search_proxy(opensearch_server: RunningOpenSearch, tcp_proxy: OpenProxy) -> TcpProxy:
    """A proxy in front of OpenSearch."""
    return await tcp_proxy("127.0.0.1", int(opensearch_server.url.rpartition(":")[2]))


@pytest_asyncio.fixture(loop_scope="session")
async def searching(settings: MemorySettings, search_proxy: TcpProxy) -> AsyncIterator[Stores]:
    """Stores of a tenant of its own whose index is behind the proxy, and already there."""
    tenant = f"t-{uuid.uuid4().hex}"
    search = OpenSearchSettings(urls=(f"http://127.0.0.1:{search_proxy.port}",))
    built = build_stores(replace(settings, opensearch=search, tenants=(tenant,), default_tenant=tenant))
    await built.open()
    await follow(built, tenant)
    yield built
    await search_proxy.pass_on()
    await built.close()


async def asked(stores: Stores, tenant: str, seconds: float = DEADLINE) -> tuple[dict[str, str], float]:
    """Ask for context; return what each tier says and how long it took."""
    call = GetContext(scope=SCOPE, step="serve", task="free the port", deadline_ms=round(seconds * 1000))
    began = time.monotonic()
    package = await recall(call, caller(tenant), stores)
    return {tier.tier: tier.status for tier in package.tiers}, time.monotonic() - began


async def test_an_index_that_refuses_is_down_and_follows_once_it_is_back(
    searching: Stores, search_proxy: TcpProxy
) -> None:
    tenant = searching.settings.default_tenant
    await search_proxy.refuse()
    statuses, took = await asked(searching, tenant)
    assert (statuses["signatures"], statuses["vectors"], statuses["vault"]) == ("answered", "down", "answered")
    assert took < AT_MOST
    await teach(searching, "free the port while the index is down", by=caller(tenant))
    follower = index_follower(searching, tenant)
    with pytest.raises(StoreUnavailable):
        await follower.step()
    await follower._release()
    vectors = next(tier for tier in (await health(tenant, searching)).tiers if tier.tier == "vectors")
    assert vectors.health == "down"

    await search_proxy.pass_on()
    await until_followed(searching, tenant)
    assert await differences(searching, tenant=tenant) == []
    assert (await asked(searching, tenant, seconds=20))[0]["vectors"] == "answered"


async def test_an_index_that_is_silent_takes_no_more_than_the_deadline(
    searching: Stores, search_proxy: TcpProxy
) -> None:
    tenant = searching.settings.default_tenant
    await asked(searching, tenant)
    search_proxy.black_hole()
    for _ in range(3):
        statuses, took = await asked(searching, tenant)
        assert statuses["vectors"] in {"late", "down"}
        assert statuses["signatures"] == "answered"
        assert took < AT_MOST
    await teach(searching, "free the port while the index is silent", by=caller(tenant))
    await search_proxy.pass_on()
    await until_followed(searching, tenant)
    assert await differences(searching, tenant=tenant) == []


@pytest.mark.parametrize("taught", [["rotate the key"], []])
async def test_an_index_that_was_lost_is_built_again_of_all_that_is_on_record(
    searching: Stores, opensearch_server: RunningOpenSearch, taught: list[str]
) -> None:
    tenant = searching.settings.default_tenant
    follower = index_follower(searching, tenant, FollowerSettings(prepare_seconds=0, deadline_seconds=SECONDS))
    for lesson in ("free the port before serving", "warm the cache"):
        await teach(searching, lesson, by=caller(tenant))
    await drain(follower)
    async with ClientSession(opensearch_server.url) as session:
        for lost in await searching.index.generations(tenant, deadline_seconds=SECONDS):
            (await session.delete(f"/{index_of(tenant, lost.number)}")).raise_for_status()
    for lesson in taught:
        await teach(searching, lesson, by=caller(tenant))
    await drain(follower)
    (live,) = await searching.index.generations(tenant, deadline_seconds=SECONDS)
    entries = await searching.index.entries(tenant, live.number, after=None, limit=9, deadline_seconds=SECONDS)
    assert len(entries) == 2 + len(taught)
    assert await differences(searching, tenant=tenant) == []


async def test_an_index_that_is_lost_between_preparing_and_putting_is_waited_for(
    searching: Stores, opensearch_server: RunningOpenSearch
) -> None:
    tenant = searching.settings.default_tenant
    follower = index_follower(searching, tenant, FollowerSettings(prepare_seconds=600, deadline_seconds=SECONDS))
    await teach(searching, "free the port before serving", by=caller(tenant))
    await drain(follower)
    async with ClientSession(opensearch_server.url) as session:
        for lost in await searching.index.generations(tenant, deadline_seconds=SECONDS):
            (await session.delete(f"/{index_of(tenant, lost.number)}")).raise_for_status()
    await teach(searching, "rotate the key", by=caller(tenant))
    with pytest.raises(StoreUnavailable, match="no index yet, or it is gone"):
        await follower.step()
    await drain(follower)
    assert await differences(searching, tenant=tenant) == []


async def drain(follower: Follower) -> None:
    while await follower.step():
        pass


async def until_followed(stores: Stores, tenant: str) -> None:
    """Follow until nothing is left; a breaker may still be open for a moment."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await follow(stores, tenant)
            except StoreUnavailable as error:
                await asyncio.sleep(min(error.retry_after_seconds, 0.5))
