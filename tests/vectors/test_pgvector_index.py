"""What only the index in Postgres has: a graph for large scopes, tables to tidy, a schema to come from."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path
from typing import Any, LiteralString

import pytest
import pytest_asyncio

from memory.errors import SchemaMismatch
from memory.journal import Event, EventKind, Origin, Provenance, record
from memory.postgres import Pool, migrate, tenant_transaction
from memory.vectors import pgvector, pgvector_put, pgvector_search
from memory.vectors.pgvector import PgvectorIndex
from memory.vectors.pgvector_put import SQL, vector_text
from memory.vectors.pgvector_search import NEAREST_IN_GRAPH
from tests.fixtures_postgres import Database
from tests.vectors.conftest import SECONDS, Store, settings_for
from tests.vectors.hashed import HashedEmbedder
from tests.vectors.test_conformance import LOCK, PORT, WORDS
from worker.stack.postgres import RunningPostgres

# A thousand vectors of another tenant, all around one.
NEARER = """
insert into index_vectors (tenant, corpus, document, reached, embedding)
select '{tenant}', 1, document, 'graph', array(
  select number + 0.05 * sin(document * at) from unnest('{vector}'::vector::real[]) with ordinality as part (number, at)
)::halfvec
from generate_series(1, 1000) as document;
"""
TABLES = ("index_corpora", "index_documents", "index_postings", "index_vectors")


@pytest.fixture
def store(pgvector_store: Store) -> Store:
    return pgvector_store


async def counted(store: Store, database: Database) -> dict[str, int]:
    """How many rows the tenant has in each table, seen from above the policies."""
    asked = ", ".join(f"(select count(*) from {table} where tenant = '{store.tenant}')" for table in TABLES)
    told = (await database.run_sql(f"select {asked};")).strip()
    return dict(zip(TABLES, map(int, told.split("|")), strict=True))


@pytest.mark.parametrize("dimension", [256, 1536])
async def test_a_scope_beyond_the_exact_search_is_found_through_the_graph(
    store: Store, index_pool: Pool, monkeypatch: pytest.MonkeyPatch, dimension: int
) -> None:
    monkeypatch.setattr(pgvector_put, "EXACT_DOCUMENTS", 40)
    store.embedder = HashedEmbedder("wide", dimension)
    store.index = store.another(store.embedder)
    texts = [" ".join(random.Random(number).sample(WORDS, 6)) for number in range(160)]
    for first in range(0, 160, 20):
        batch = range(first, first + 20)
        await store.put(*(store.document(f"d{n:03}", texts[n], kind="rule" if n % 9 == 0 else "lesson") for n in batch))
    async with tenant_transaction(index_pool, store.tenant, deadline_seconds=SECONDS) as tx:
        reached = await tx.rows(
            "select reached, count(*) as vectors from index_vectors where tenant = %(tenant)s group by reached"
        )
    one_by_one = "scan" if dimension == 256 else "long"
    assert {row["reached"]: row["vectors"] for row in reached} == {one_by_one: 40, "graph": 120}
    for number in (3, 39, 40, 99, 159):
        assert (await store.ids(texts[number]))[0] == f"d{number:03}"
    found = await store.find(texts[99], kinds=("rule",))
    assert found.hits[0].id == "d099"
    assert {hit.id for hit in found.hits} <= {f"d{number:03}" for number in range(0, 160, 9)}


@pytest.mark.parametrize("compared", [0, 50_000])
async def test_others_in_the_graph_hide_nothing(
    store: Store, index_database: Database, monkeypatch: pytest.MonkeyPatch, compared: int
) -> None:
    monkeypatch.setattr(pgvector_put, "EXACT_DOCUMENTS", 5)
    monkeypatch.setattr(pgvector_search, "COMPARED_DOCUMENTS", compared)
    # As small a part is followed of a graph that holds millions.
    short = SQL["plan_searches"].replace(
        "'100', true)",
        "'10', true), set_config('hnsw.max_scan_tuples', '1', true), set_config('enable_sort', 'off', true)",
    )
    monkeypatch.setattr(pgvector_search, "SQL", {**SQL, "plan_searches": short})
    embedder = HashedEmbedder("wide", 256)
    store.index = store.another(embedder)
    for numbers in (range(20), range(20, 40)):
        texts = [" ".join(random.Random(number).sample(WORDS, 6)) for number in numbers]
        await store.put(*(store.document(text, text) for text in texts))
    await index_database.run_sql(
        NEARER.format(tenant=f"{store.tenant}-other", vector=vector_text(embedder.vector("zebra")))
    )
    found = await store.find("zebra", limit=100, cut_off=False)
    assert (found.searched, len(found.hits)) == (40, 40)


async def test_the_graph_is_what_a_search_of_it_reads(store: Store, index_pool: Pool) -> None:
    vector = vector_text(HashedEmbedder(dimension=384).vector(PORT))
    values: dict[str, Any] = {"corpora": [1], "candidates": 50, "vector": vector, "kinds": [], "levels": []}
    async with tenant_transaction(index_pool, store.tenant, deadline_seconds=SECONDS) as tx:
        planned = await tx.row(SQL["plan_searches"])
        for filtered, index in ((False, "index_vectors_graph_384"), (True, "index_documents_by_number")):
            explained: LiteralString = f"explain (costs off) {NEAREST_IN_GRAPH[384]}"
            rows = await tx.rows(explained, **values, filtered=filtered, not_before=None)
            plan = "\n".join(row["QUERY PLAN"] for row in rows)
            assert index in plan, plan
            assert "Seq Scan" not in plan, plan
        (shown,) = await tx.rows("show hnsw.ef_search")
    assert planned is not None
    assert planned["iterative_scan"] == "relaxed_order"
    assert shown == {"hnsw.ef_search": "100"}


async def test_the_loop_goes_on_while_long_documents_are_put(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[threading.Thread] = set()
    packed = pgvector_put._POSTING

    class Packing:
        def pack(self, *numbers: int) -> bytes:
            threads.add(threading.current_thread())
            return packed.pack(*numbers)

    monkeypatch.setattr(pgvector_put, "_POSTING", Packing())
    await store.put(*(store.document(f"d{number}", f"{PORT} {number} " * 500) for number in range(3)))
    assert threads
    assert threading.main_thread() not in threads


def test_a_transaction_takes_so_many_documents_and_characters(store: Store) -> None:
    texts = ["x" * 60_000] * 2 + ["x" * 200_000] + ["x"] * 201
    batches = list(pgvector._batches([store.document(f"d{at}", text) for at, text in enumerate(texts)]))
    assert [len(batch) for batch in batches] == [1, 1, 1, 200, 1]
    assert [one.id for batch in batches for one in batch] == [f"d{at}" for at in range(204)]


async def test_puts_at_once_in_any_order_neither_wait_in_circles_nor_miscount(store: Store) -> None:
    documents = [
        store.document(f"d{number % 30}", f"{PORT} {WORDS[number % 30]}", version=number, scope=f"s{number % 3}")
        for number in range(1, 241)
    ]
    batches = [random.Random(seed).sample(documents, 60) for seed in range(8)]
    await store.begin()
    await asyncio.gather(*(store.index.put(batch, deadline_seconds=SECONDS) for batch in batches))
    newest: dict[tuple[str, str], int] = {}
    for one in (one for batch in batches for one in batch):
        newest[one.scope, one.id] = max(one.version, newest.get((one.scope, one.id), 0))
    (live,) = await store.index.generations(store.tenant, deadline_seconds=SECONDS)
    entries = await store.index.entries(store.tenant, live.number, after=None, limit=100, deadline_seconds=SECONDS)
    assert {(entry.scope, entry.id): entry.version for entry in entries} == newest
    for scope in ("s0", "s1", "s2"):
        found = await store.find("port 8080", scope=scope, limit=100)
        assert found.searched == len(found.hits) == sum(place[0] == scope for place in newest)


async def test_what_is_dropped_is_taken_away_with_the_puts_that_follow(store: Store, index_database: Database) -> None:
    await store.put(*(store.document(f"d{number}", f"{PORT} {number}") for number in range(40)))
    for _ in range(2):
        await store.index.begin(store.tenant, deadline_seconds=SECONDS)
        await store.put(store.document("x", LOCK, scope="a"), store.document("y", LOCK, scope="b"))
    begun = await store.index.begin(store.tenant, deadline_seconds=SECONDS)
    await store.put(store.document("z", PORT))
    await store.index.promote(store.tenant, begun.number, deadline_seconds=SECONDS)
    newest = await store.index.begin(store.tenant, deadline_seconds=SECONDS)
    await store.index.promote(store.tenant, newest.number, deadline_seconds=SECONDS)
    for _ in range(20):
        await store.put(store.document("z", PORT))
    assert {one.number for one in await store.index.generations(store.tenant, deadline_seconds=SECONDS)} == {
        begun.number,
        newest.number,
    }
    told = await index_database.run_sql(
        f"select number from index_generations where tenant = '{store.tenant}' order by number;"
    )
    assert told.split() == [str(begun.number), str(newest.number)]
    rows = await counted(store, index_database)
    assert (rows["index_corpora"], rows["index_documents"], rows["index_vectors"]) == (2, 2, 2)


async def test_another_tenant_sees_and_changes_nothing_of_it(store: Store, index_pool: Pool) -> None:
    await store.put(store.document("port", PORT))
    async with tenant_transaction(index_pool, f"{store.tenant}-other", deadline_seconds=SECONDS) as tx:
        for table in (*TABLES, "index_generations"):
            seen: LiteralString = f"select from {table}"  # type: ignore[assignment]
            assert await tx.rows(seen) == []
    assert await store.ids("port") == ["port"]


@pytest_asyncio.fixture(loop_scope="session")
async def former(postgres_server: RunningPostgres) -> AsyncIterator[Database]:
    """An empty database, without the extension."""
    database = Database("former_schema", postgres_server)
    await postgres_server.run_sql(f"create database {database.name} owner poimen_owner template template0;")
    yield database
    await postgres_server.run_sql(f"drop database {database.name} with (force);")


async def test_a_database_of_before_has_its_index_filled_by_whoever_follows_the_journal(
    former: Database, tmp_path: Path
) -> None:
    shipped = files("memory.postgres") / "migrations"
    with pytest.raises(SchemaMismatch, match="CREATE EXTENSION vector"):
        await migrate(former.owner_dsn)
    await former.run_sql("create extension vector;")
    for name in ("0001_journal.sql", "0002_aliases.sql"):
        (tmp_path / name).write_text((shipped / name).read_text())
    await migrate(former.owner_dsn, folder=tmp_path)
    pool = Pool(settings_for(former.app_dsn, tmp_path))
    await pool.open()
    for number, result in enumerate(({"items": ["les-1"]}, {"answer": {}}, {"items": []})):
        provenance = Provenance(key=f"k{number}", origin=Origin.CALLER)
        event = Event(
            tenant="local", scope="s", kind=EventKind.KNOWLEDGE_CREATED, provenance=provenance, payload={"n": number}
        )
        async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as tx:
            await record(tx, event, result)
    await former.run_sql("delete from outbox;")
    (tmp_path / "0003_vectors.sql").write_text((shipped / "0003_vectors.sql").read_text())
    await migrate(former.owner_dsn, folder=tmp_path)
    long = (shipped / "0004_former_items.sql").read_text()
    locked = "select relation::regclass from pg_locks where pid = pg_backend_pid() and mode = 'AccessExclusiveLock'"
    assert (await former.run_sql(f"begin; {long} {locked}; rollback;")).split() == []
    await migrate(former.owner_dsn)
    told = await former.run_sql("select result -> 'items' from outbox join journal using (tenant, position);")
    assert told.split() == ['["les-1"]']
    forced = await former.run_sql(
        "select bool_and(relforcerowsecurity) from pg_class"
        " where relname in ('journal', 'items', 'outbox', 'index_vectors');"
    )
    assert forced.strip() == "t"
    index = PgvectorIndex(pool, HashedEmbedder())
    assert (await index.health("local", deadline_seconds=SECONDS)).health == "ok"
    await pool.close()
