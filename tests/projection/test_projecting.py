"""The index follows the journal: whatever fails, comes twice or comes late, it ends up as what is on record."""

import asyncio
import random

import pytest

from memory.errors import StoreUnavailable
from memory.health import health
from memory.journal.read import events_since
from memory.postgres import tenant_transaction
from memory.stores import Stores
from memory.vectors import project
from memory.vectors.index import Query
from memory.vectors.project import IndexProjection, index_follower
from tests.fixtures_postgres import Database
from tests.projection.conftest import SCOPE, SECONDS, FailingIndex, differences, follow, forget, item_ids, teach

Failing = tuple[Stores, FailingIndex]


async def found(stores: Stores, text: str) -> list[str]:
    query = Query(tenant="local", scope=SCOPE, text=text)
    return [hit.id for hit in (await stores.index.search(query, deadline_seconds=SECONDS)).hits]


async def test_a_tenant_without_an_index_gets_one_from_what_is_on_record(stores: Stores, database: Database) -> None:
    await teach(stores, "free the port before serving", "warm the cache")
    await database.run_sql("delete from outbox;")
    assert await index_follower(stores, "local").step() == 0
    known = await stores.index.generations("local", deadline_seconds=SECONDS)
    assert [(one.number, one.state) for one in known] == [(1, "live")]
    assert await found(stores, "port") == (await item_ids(database))[:1]
    assert await differences(stores) == []


async def test_an_index_that_another_worker_left_half_built_is_gone_on_with(stores: Stores) -> None:
    await teach(stores, "free the port before serving")
    left = await stores.index.begin("local", deadline_seconds=SECONDS)
    await follow(stores)
    known = await stores.index.generations("local", deadline_seconds=SECONDS)
    assert [(one.number, one.state) for one in known] == [(left.number, "live")]
    assert await differences(stores) == []


@pytest.mark.usefixtures("soon")
async def test_an_item_that_the_store_refuses_is_parked_told_and_blocks_no_other(
    failing: Failing, database: Database
) -> None:
    stores, index = failing
    await follow(stores)
    await teach(stores, "free the port", "warm the cache", "rotate the key")
    poison = (await item_ids(database))[1]
    index.poison = {poison}
    await follow(stores)
    assert len(await found(stores, "port key")) == 2
    assert index.puts.count([poison]) == 3
    vectors = next(tier for tier in (await health("local", stores)).tiers if tier.tier == "vectors")
    assert vectors.health == "degraded"
    assert "1 event parked" in vectors.detail
    assert await differences(stores) == [f"index {poison}: is not in the index"]


async def test_an_outage_in_the_middle_repeats_only_what_was_not_stored(
    failing: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project, "DOCUMENTS_A_PUT", 2)
    stores, index = failing
    await follow(stores)
    await teach(stores, *(f"lesson number {number}" for number in range(5)))
    index.down = lambda put: put == 2
    follower = index_follower(stores, "local")
    with pytest.raises(StoreUnavailable):
        await follower.step()
    assert await follower.step() == 5
    first, lost, *rest = index.puts
    assert rest[0] == lost
    assert len(rest) == 2
    assert not set(first) & {item for put in rest for item in put}
    assert await differences(stores) == []


async def test_events_that_come_again_and_in_any_order_change_nothing(stores: Stores) -> None:
    ids = await teach(stores, *(f"lesson number {number}" for number in range(8)))
    await forget(stores, *ids[:3])
    await follow(stores)
    (live,) = await stores.index.generations("local", deadline_seconds=SECONDS)

    async def entries() -> object:
        return await stores.index.entries("local", live.number, after=None, limit=100, deadline_seconds=SECONDS)

    before, hits = await entries(), await found(stores, "lesson number 5")
    async with tenant_transaction(stores.pool, "local", deadline_seconds=SECONDS) as tx:
        events = 3 * await events_since(tx, 0)
    random.Random(3).shuffle(events)
    projection = IndexProjection(stores)
    await asyncio.gather(projection.apply(events[:15]), IndexProjection(stores).apply(events[15:]))
    assert await entries() == before
    assert hits
    assert await found(stores, "lesson number 5") == hits
    assert await differences(stores) == []


async def test_a_change_whose_event_has_a_lower_position_than_the_last_still_counts_as_newer(
    stores: Stores, database: Database
) -> None:
    (item,) = await teach(stores, "free the port")
    await follow(stores)
    # A transaction that drew its position first and got the row last.
    await database.run_sql("update items set version = version + 1000;")
    await forget(stores, item)
    await follow(stores)
    assert await found(stores, "port") == []
    assert await differences(stores) == []
