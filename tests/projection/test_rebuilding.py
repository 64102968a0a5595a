"""A generation is built beside the live one while memory goes on, and takes its place when it is the same."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from memory.compare import compare_pages
from memory.errors import SchemaMismatch, StoreUnavailable
from memory.rebuild import begin_generation, check_embedder, copy_changes, copy_page, ensure_generation
from memory.stores import Stores
from memory.vectors.documents import Change
from memory.vectors.index import Query
from memory.vectors.pgvector import PgvectorIndex
from memory.vectors.project import index_follower
from tests.projection.conftest import SCOPE, SECONDS, FailingIndex, differences, follow, forget, teach
from tests.vectors.hashed import HashedEmbedder

Embedding = Callable[..., Stores]


@pytest.fixture
def embedding(stores: Stores) -> Embedding:
    """The same stores with another embedder."""

    def made(name: str, dimension: int = 64) -> Stores:
        embedder = HashedEmbedder(name, dimension)
        return replace(stores, index=PgvectorIndex(stores.pool, embedder), embedder=embedder)

    return made


async def copied(stores: Stores, limit: int = 2) -> int:
    items, after = 0, None
    while True:
        stretch = await copy_page(stores, "local", after, limit)
        items, after = items + stretch.items, stretch.after
        if after is None:
            return items


async def caught_up(stores: Stores, since: Change, limit: int = 128) -> int:
    items, after = 0, since
    while True:
        stretch = await copy_changes(stores, "local", after, limit)
        items += stretch.items
        if stretch.after is None:
            return items
        after = stretch.after


async def differing(stores: Stores, number: int) -> list[str]:
    return [one.detail async for page in compare_pages(stores, "local", number) for one, _ in page.differing]


async def live(stores: Stores) -> tuple[int, str]:
    known = await stores.index.generations("local", deadline_seconds=SECONDS)
    (one,) = [(one.number, one.embedder) for one in known if one.state == "live"]
    return one


async def test_what_is_written_during_a_rebuild_is_in_both_generations(stores: Stores) -> None:
    ids = await teach(stores, *(f"lesson number {number}" for number in range(5)))
    await follow(stores)
    before = await live(stores)
    generation, since = await begin_generation(stores, "local")
    assert await copied(stores) == 5
    await teach(stores, "drain the queue")
    await forget(stores, ids[0])
    await follow(stores)
    assert await live(stores) == before
    assert await differing(stores, generation.number) == []
    await stores.index.promote("local", generation.number, deadline_seconds=SECONDS)
    assert await differences(stores) == []
    assert await caught_up(stores, since) == 6


async def test_a_catch_up_brings_what_nobody_projected_meanwhile(stores: Stores) -> None:
    ids = await teach(stores, *(f"lesson number {number}" for number in range(5)))
    generation, since = await begin_generation(stores, "local")
    await copied(stores)
    await forget(stores, ids[0])
    await teach(stores, "drain the queue")
    assert sorted(await differing(stores, generation.number)) == [
        "is not in the index",
        "is older in the index (version 1) than on record (version 6)",
    ]
    assert await caught_up(stores, since, limit=2) == 6
    assert await differing(stores, generation.number) == []


async def test_a_worker_refuses_an_index_of_another_embedder_and_a_rebuild_mends_it(
    stores: Stores, embedding: Embedding
) -> None:
    await teach(stores, "free the port", "warm the cache")
    first, second = embedding("first"), embedding("second")
    await follow(first)
    await check_embedder(first)
    with pytest.raises(SchemaMismatch) as refused:
        await check_embedder(second)
    assert str(refused.value) == (
        "The index of local was made by first, and this worker is set to search by second. "
        "Run poimen rebuild --index, or set POIMEN_EMBEDDER back."
    )
    generation, _ = await begin_generation(second, "local")
    await copied(second)
    assert await live(second) == (1, "first")
    await second.index.promote("local", generation.number, deadline_seconds=SECONDS)
    await check_embedder(second)
    with pytest.raises(SchemaMismatch):
        await check_embedder(first)
    query = Query(tenant="local", scope=SCOPE, text="free the port")
    (hit,) = (await second.index.search(query, deadline_seconds=SECONDS)).hits[:1]
    assert hit.cosine is not None


async def test_a_dimension_that_changed_under_one_name_is_another_embedder(
    stores: Stores, embedding: Embedding
) -> None:
    await teach(stores, "free the port")
    former, changed = embedding("endpoint:m", 16), embedding("endpoint:m", 32)
    left = await former.index.begin("local", deadline_seconds=SECONDS)
    # What the former worker left half built is not gone on with.
    await ensure_generation(changed, "local")
    assert await live(changed) == (left.number + 1, "endpoint:m")
    with pytest.raises(SchemaMismatch) as refused:
        await check_embedder(former)
    assert str(refused.value) == (
        "The index of local was made by endpoint:m in 32 dimensions, and this worker is set to search by "
        "16 dimensions. Run poimen rebuild --index, or set POIMEN_EMBEDDING_DIMENSION back."
    )
    await check_embedder(changed)


async def test_a_worker_of_the_former_embedder_keeps_its_place_in_the_journal(
    stores: Stores, embedding: Embedding
) -> None:
    first, second = embedding("first"), embedding("second")
    await teach(stores, "free the port")
    await follow(first)
    generation, since = await begin_generation(second, "local")
    await copied(second)
    # Projected by the worker of the former embedder: into its own generation alone.
    await teach(stores, "warm the cache")
    await follow(first)
    assert await differing(second, generation.number) == ["is not in the index"]
    await second.index.promote("local", generation.number, deadline_seconds=SECONDS)
    await caught_up(second, since)
    await teach(stores, "drain the queue")
    follower = index_follower(first, "local")
    with pytest.raises(StoreUnavailable, match="poimen rebuild --index"):
        await follower.step()
    await follower._release()
    await follow(second)
    assert await differences(second) == []


async def test_an_item_that_does_not_go_in_is_told_and_stops_nothing(failing: tuple[Stores, FailingIndex]) -> None:
    stores, index = failing
    await teach(stores, "free the port", "warm the cache", "drain the queue")
    await follow(stores)
    generation, since = await begin_generation(stores, "local")
    page = await stores.index.entries("local", 1, after=None, limit=9, deadline_seconds=SECONDS)
    index.poison = {page[1].id}
    stretch = await copy_page(stores, "local", None, 9)
    assert (stretch.items, stretch.failed, stretch.after) == (3, (page[1].id,), None)
    assert (await copy_changes(stores, "local", since)).failed == (page[1].id,)
    assert await differing(stores, generation.number) == ["is not in the index"]
