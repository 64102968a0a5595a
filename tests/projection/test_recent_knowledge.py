"""What was learned last is found before the index has it, and whether or not the index answers."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest_asyncio

from memory.knowledge import search
from memory.postgres import tenant_transaction
from memory.recall import recall
from memory.settings import MemorySettings, OpenSearchSettings
from memory.stores import Stores, build_stores
from poimen.contracts.memory_calls import GetContext, SearchKnowledge, SearchResult
from tests.memory.acted_step import caller
from tests.projection.conftest import SCOPE, SECONDS, follow, teach


@pytest_asyncio.fixture(loop_scope="session")
async def without_index(settings: MemorySettings) -> AsyncIterator[Stores]:
    """Stores whose index is at an address where nobody listens."""
    built = build_stores(replace(settings, opensearch=OpenSearchSettings(urls=("http://127.0.0.1:9",))))
    await built.open()
    yield built
    await built.close()


async def found(stores: Stores, query: str) -> SearchResult:
    call = SearchKnowledge(scope=SCOPE, query=query, tiers=("vectors",), deadline_ms=20_000)
    return await search(call, caller(), stores)


async def test_a_lesson_is_found_while_the_index_is_down(without_index: Stores) -> None:
    await teach(without_index, "free the port with fuser")
    result = await found(without_index, "free the port")
    assert ["fuser" in item.text for item in result.items] == [True]
    call = GetContext(scope=SCOPE, task="free the port", deadline_ms=20_000)
    package = await recall(call, caller(), without_index)
    assert [item.text for item in package.items if item.tier == "vectors"] == ["free the port with fuser"]
    for tiers in (result.tiers, package.tiers):
        assert [(tier.status, tier.found) for tier in tiers if tier.tier == "vectors"] == [("down", 1)]


async def test_nothing_recent_and_no_index_is_said(without_index: Stores) -> None:
    result = await found(without_index, "free the port")
    assert (result.items, result.empty_reason) == ((), "tier_down")
    assert "vectors down" in (result.empty_because or "")


async def test_a_word_is_no_rarer_in_what_is_recent_than_in_its_scope(stores: Stores) -> None:
    for number in range(12):
        await teach(stores, f"deploy part {number} of the cluster")
    await follow(stores)
    async with tenant_transaction(stores.pool, "local", deadline_seconds=SECONDS) as tx:
        tx.defer("update items set updated_at = updated_at - interval '1 hour' where tenant = %(tenant)s")
    await teach(stores, "deploy the pages at night")
    assert (await found(stores, "deploy certificate missing")).items == ()
    assert ["at night" in item.text for item in (await found(stores, "pages at night")).items] == [True]
