"""A lesson of one attempt is there for the next, however far the index is behind."""

from typing import Any

from memory.knowledge import search
from memory.recall import recall
from memory.stores import Stores
from poimen.contracts.memory_calls import GetContext, SearchKnowledge
from tests.fixtures_postgres import Database
from tests.memory.acted_step import caller
from tests.projection.conftest import SCOPE, follow, forget, teach


async def found(stores: Stores, query: str, **values: Any) -> list[str]:
    asked = {"scope": SCOPE, "tiers": ("vectors",), "deadline_ms": 20_000, **values}
    return [item.title for item in (await search(SearchKnowledge(query=query, **asked), caller(), stores)).items]


async def test_what_attempt_1_taught_reaches_attempt_2_of_another_step_while_nothing_follows(stores: Stores) -> None:
    await follow(stores)
    await teach(stores, "free port 8080 before serving")
    call = GetContext(scope=SCOPE, step="smoke", attempt=2, task="serve on port 8080", deadline_ms=20_000)
    package = await recall(call, caller(), stores)
    assert [(item.tier, item.title) for item in package.items] == [("vectors", "Free port 8080 before serving")]


async def test_a_tenant_whose_index_was_never_built_is_searched_as_well(stores: Stores) -> None:
    await teach(stores, "free port 8080 before serving", "warm the cache")
    assert await found(stores, "port 8080") == ["Free port 8080 before serving"]


async def test_what_is_new_stands_beside_what_the_index_has(stores: Stores) -> None:
    await teach(stores, "the port of the proxy is 8080", "warm the cache", "drain the queue")
    await follow(stores)
    await teach(stores, "the port of the server is 8443")
    assert set(await found(stores, "port of the server")) == {
        "The port of the proxy is 8080",
        "The port of the server is 8443",
    }
    await follow(stores)
    assert (await found(stores, "port of the server"))[0] == "The port of the server is 8443"


async def test_what_was_retired_and_what_fits_no_filter_is_not_found(stores: Stores) -> None:
    await follow(stores)
    (retired, _) = await teach(stores, "free port 8080 before serving", "free port 9090 before serving")
    await forget(stores, retired)
    await teach(stores, "free port 7070 before serving", scope="acme/web")
    assert await found(stores, "free port before serving") == ["Free port 9090 before serving"]
    assert await found(stores, "free port before serving", kinds=("rule",)) == []
    assert await found(stores, "free port before serving", scope="acme/other") == []


async def test_what_is_about_something_else_is_not_found_for_being_new(stores: Stores) -> None:
    await follow(stores)
    await teach(stores, "rotate the signing key every month")
    assert await found(stores, "why does the disk fill up with core dumps at night") == []


async def test_a_long_backlog_is_looked_into_from_its_newest_end(stores: Stores, database: Database) -> None:
    await teach(stores, "free port 8080 before serving")
    await database.run_sql(
        "insert into items (tenant, id, scope, kind, level, title, text, origin, trust, created_at, updated_at)"
        " select 'local', 'les-' || n, 'acme/api', 'lesson', 'L1', 't', 'port ' || n, 'caller', 'observed',"
        " now() - n * interval '1 ms' - interval '1 s', now() - n * interval '1 ms' - interval '1 s'"
        " from generate_series(1, 2000) n;"
    )
    assert "Free port 8080 before serving" in await found(stores, "free port 8080 before serving")
