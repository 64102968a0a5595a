"""Whatever is looked up is looked up by an index, and the index leads to it: few rows are read to be thrown away."""

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, LiteralString

import pytest
import pytest_asyncio

from benchmarks.lookup import fill
from memory.document import document
from memory.health import health
from memory.knowledge import retire, search
from memory.observations import observations
from memory.postgres import load_queries, tenant_transaction
from memory.recall import recall
from memory.settings import MemorySettings
from memory.stores import Stores, build_stores
from memory.vectors.project import index_follower
from memory.why import explain
from poimen.contracts.memory_calls import DocumentDecision, GetContext, RetireKnowledge, SearchKnowledge
from tests.fixtures_postgres import Database
from tests.memory.acted_step import PORT_TAKEN, ActedStep, caller, cured_by
from worker.stack.postgres import RunningPostgres

ROWS = 5_000
SCOPE = "scope-1"
PLACE = {"scope": SCOPE, "step": "step-1"}
GROWING = {
    "aliases",
    "attempts",
    "bodies",
    "environments",
    "index_documents",
    "index_postings",
    "index_vectors",
    "items",
    "journal",
    "outbox",
    "receipts",
    "signatures",
    "step_outcomes",
}
# Of a tenant's thousands of rows; what a look-up reads and throws away must not grow with them.
FEW = 50
OUTBOX = """
insert into outbox select tenant, (100 + position)::text::xid8, position from journal;
insert into bodies select tenant, md5(key) || md5(key), 1, key from journal;
insert into followers (tenant, name, cursor_tx) values ('local', 'vectors', '2100');
"""
# Some of the scope's are in the graph.
VECTORS = """
insert into index_vectors
select tenant, corpus, document, case when in_graph then 'graph' else 'scan' end,
  array(select sin(document * at) from generate_series(1, case when in_graph then 384 else 8 end) as at)::halfvec
from (
  select *, document % 40 = 0 and scope = 'scope-1' as in_graph
  from index_documents join index_corpora using (tenant, corpus)
) as placed;
update index_corpora set graphed = scope = 'scope-1';
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def filled_template(postgres_server: RunningPostgres, migrated_template: str) -> str:
    """A database in which another tenant has recorded as much as ours, and all of it after ours."""
    filled = Database("filled_template", postgres_server)
    await postgres_server.run_sql(f"create database {filled.name} owner poimen_owner template {migrated_template};")
    for tenant in ("local", "other"):
        for script in fill(ROWS):
            await filled.run_sql(script.replace("'local'", f"'{tenant}'"))
    await filled.run_sql(OUTBOX + VECTORS + "analyze;")
    return filled.name


@pytest_asyncio.fixture(loop_scope="session")
async def database(postgres_server: RunningPostgres, filled_template: str) -> AsyncIterator[Database]:
    """A filled database of this test's own."""
    own = Database(f"filled_{uuid.uuid4().hex[:12]}", postgres_server)
    await postgres_server.run_sql(f"create database {own.name} owner poimen_owner template {filled_template};")
    yield own
    await postgres_server.run_sql(f"drop database {own.name} with (force);")


async def everybody_left(database: Database) -> None:
    connected = "select count(*) from pg_stat_activity where datname = current_database() and usename = 'poimen_app';"
    async with asyncio.timeout(20):
        while (await database.run_sql(connected)).strip() != "0":
            continue


async def scans(database: Database) -> dict[str, int]:
    # A backend that ends hands its counters in; the pool is closed before this is asked.
    told = await database.run_sql("select json_object_agg(relname, seq_scan) from pg_stat_user_tables;")
    found: dict[str, int] = json.loads(told)
    return {name: found[name] for name in GROWING}


SIGNATURES = ["s1:c4ca4238a0b923820dcc509a6f75849b", "s1:x"]
ISSUE = {"scope": SCOPE, "signatures": SIGNATURES, "alike": SIGNATURES, "limit": 5}
MEANING = {"corpora": [1], "candidates": 50, "vector": str([1.0] * 8)}
MEANT = {"meant": True, "graphed": False, "reached": "scan"}
GRAPH = {**MEANING, "vector": str([1.0] * 384)}
UNFILTERED: dict[str, object] = {"filtered": False, "kinds": [], "levels": [], "not_before": None}
LOOK_UPS: dict[str, dict[str, object]] = {
    "aliases/alias_in_force": {"scope": SCOPE, "signature": "s1:x"},
    "aliases/signatures_like": {"scope": SCOPE, "beginning": "s1:c4ca"},
    "diagnose/relatives": {**ISSUE, "family": "f1:x"},
    "diagnose/same_failure": {**ISSUE, "scopes": ["@library", SCOPE], "step": None},
    "diagnose/seen_signature": {"scope": SCOPE, "signatures": SIGNATURES},
    "diagnose/signatures_alike": {"scope": SCOPE, "signatures": SIGNATURES},
    "health/newest_event": {},
    "items/item": {"id": "les-1"},
    "items/items": {"ids": ["les-1", "les-2"]},
    "items/items_like": {"beginning": "les-7f3c", "scope": SCOPE},
    "items/lock_item": {"id": "les-1"},
    "items/told_lessons": {**PLACE, "limit": 2},
    "journal/cursor": {"name": "vectors"},
    "journal/events_at": {"positions": [5, 6, 7]},
    "journal/events_of_run": {"run": "run-5", "limit": 10},
    "journal/events_of_workflow": {"workflow_id": "run-5", "limit": 10},
    "journal/events_since": {"position": ROWS - 10, "limit": 500},
    "journal/find_event": {"key": "grown-5"},
    "journal/first_not_passed": {"cursor_tx": str(ROWS), "cursor_position": 0},
    "journal/parked": {"name": "vectors", "ago": timedelta(minutes=5), "limit": 20},
    "journal/lag": {"name": "vectors", "cursor_tx": str(ROWS), "cursor_position": 0, "limit": 200},
    "journal/read_batch": {"cursor_tx": "150", "cursor_position": 50, "limit": 200},
    "journal/read_bodies": {"hashes": ["x"]},
    "journal/slowest": {},
    "knowledge/lessons_of_signature": {"scope": SCOPE, "signatures": SIGNATURES, "limit": 10},
    "observations/observations": observations(SCOPE, [f"les-{n}" for n in range(9)]).values,
    "observations/occurrence": {**PLACE, "occurrence": "run-50/step-1", "limit": 100},
    "observations/run_name": {"run": "run-5"},
    "recent/recent_items": {
        "scopes": ["@library", SCOPE],
        "cursor_tx": str(ROWS),
        "cursor_position": 0,
        "kinds": [],
        "levels": [],
        "not_before": None,
        "limit": 64,
    },
    "step_knowledge/helped": {**PLACE, "limit": 20},
    "step_knowledge/latest_outcomes": {**PLACE, "environment": "", "limit": 100},
    "step_knowledge/lessons": {
        **PLACE,
        "environment": "",
        "first": "s1:x",
        "outcomes": 100,
        "attempts": 200,
        "limit": 12,
    },
    "step_knowledge/signature_words": {"scope": SCOPE, "signature": "s1:x"},
    "vectors/answer": {},
    "vectors/allowed": {"corpora": [1], **UNFILTERED},
    "vectors/candidates": {"corpora": [1, 1], "documents": [1017, 1018], "terms": ["failur"], **MEANT},
    "vectors/first_by_id": {"corpora": [1, 1], "documents": [1017, 1018], "limit": 1},
    "vectors/postings": {"corpora": [1], "terms": ["failur", "w17"], "most": 1000},
    "vectors/entries": {"number": 1, "scope": SCOPE, "id": "les-7", "limit": 20},
    "vectors/generations": {},
    "vectors/live_corpora": {"scopes": ["@library", SCOPE]},
    "vectors/hold_generations": {},
    "vectors/lock_corpora": {"scopes": [SCOPE], "embedder": "", "dimension": 0},
    "vectors/items_after": {"scope": SCOPE, "id": "les-7", "limit": 20},
    "vectors/items_changed_after": {"changed_at": "2020-01-01T00:00:00Z", "id": "", "limit": 20},
    "vectors/known_documents": {"corpora": [1, 1], "ids": ["les-1", "les-2"]},
    "vectors/nearest": {**MEANING, **UNFILTERED, "reached": "scan"},
    "vectors/nearest_in_graph": {**GRAPH, **UNFILTERED},
    "vectors/some_items": {"ids": ["les-1", "les-2"]},
    "verify/items_not_as_recorded": {"after": 5, "last": 9},
    "verify/items_page": {"after": "les-7", "limit": 20},
    "verify/items_without_event": {"after": "les-7", "last": "les-71"},
    "verify/journal_page": {"after": 5, "limit": 20},
    "why/deliveries": {"run": "run-5"},
    "why/run_of_steps": {"beginning": "run-5/"},
    "why/runs_of_workflow": {"workflow_id": "run-5"},
    "producers/healthy_runs": {"scope": SCOPE, "artifact": "api/paging.py", "limit": 2_000},
    "producers/marked_artifacts": {"scope": SCOPE, "run": "run-5", "limit": 20},
    "producers/origin_of": {"position": 5},
    "producers/retired_lessons": {"ids": ["les-1", "les-2"]},
    "producers/run_artifacts": {"scope": SCOPE, "run": "run-5", "limit": 20},
    "producers/run_decisions": {"scope": SCOPE, "run": "run-5", "limit": 300},
}
# What is asked for a person or by a batch, and reads all that there is of a kind in one tenant.
LISTS = {"aliases/aliases_in_force", "producers/items_of_notes", "resign/signed_before", "scopes/scopes"}
WITHOUT_TABLES = {"vectors/now", "vectors/plan_searches"}
# The schema's own tables hold a few rows.
NO_LOOK_UPS = {"postgres"}
WRITES = re.compile(r"\b(insert into|update \w+( as \w+)?\s+set|delete from|create table|pg_advisory_xact_lock)\b")


def queries() -> dict[str, LiteralString]:
    """Give every query of memory that writes nothing, by its file (or its package) and its name."""

    def below(folder: Traversable, package: str) -> Iterator[tuple[str, LiteralString]]:
        for place in folder.iterdir():
            if place.is_dir() and not place.name.startswith("_"):
                yield from below(place, f"{package}.{place.name}")
            elif place.name.endswith(".sql") and folder.name != "migrations":
                group = place.name.removesuffix(".sql") if package == "memory" else folder.name
                for name, query in load_queries(package, place.name).items():
                    yield f"{group}/{name}", query

    found = below(files("memory"), "memory")
    return {name: query for name, query in found if not WRITES.search(query)}


QUERIES = queries()


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for under in plan.get("Plans", ()):
        yield from nodes(under)


def thrown_away(node: dict[str, Any]) -> int:
    removed = ("Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter")
    return round(sum(node.get(why, 0) for why in removed) * node["Actual Loops"])


def test_every_query_that_reads_is_looked_at_here() -> None:
    read = {name for name in QUERIES if name.partition("/")[0] not in NO_LOOK_UPS}
    assert read == set(LOOK_UPS) | LISTS | WITHOUT_TABLES


async def test_every_look_up_reads_by_index_and_throws_little_away(settings: MemorySettings) -> None:
    stores = build_stores(settings)
    await stores.pool.open()
    wrong: dict[str, object] = {}
    for name, values in LOOK_UPS.items():
        async with tenant_transaction(stores.pool, "local", deadline_seconds=20) as tx:
            explained: LiteralString = f"explain (analyze, format json) {QUERIES[name]}"
            row = await tx.row(explained, **values)
        assert row is not None
        found = list(nodes(row["QUERY PLAN"][0]["Plan"]))
        tables = {node["Relation Name"]: node["Node Type"] for node in found if "Relation Name" in node}
        scanned = [table for table in GROWING if tables.get(table) == "Seq Scan"]
        removed = sum(map(thrown_away, found))
        if scanned or removed > FEW or not tables:
            wrong[name] = scanned, removed, tables
    await stores.pool.close()
    assert wrong == {}


async def _steps(stores: Stores) -> None:
    step = ActedStep(stores, scope=SCOPE, step="step-1", repairs=("mend",))
    for number in range(2):
        await step.run(f"rel-{number}", cured_by("mend"))


async def _recall(stores: Stores) -> None:
    values = {"last_signature": "s1:x", "attempt": 2, "deadline_ms": 20_000, "task": "failure w17"}
    await recall(GetContext(**PLACE, **values), caller(), stores)


async def _search(stores: Stores) -> None:
    call = SearchKnowledge(scope=SCOPE, query="n1017", deadline_ms=20_000)
    assert (await search(call, caller(), stores)).items


async def _retire(stores: Stores) -> None:
    call = SearchKnowledge(scope=SCOPE, query=PORT_TAKEN, deadline_ms=20_000)
    await _steps(stores)
    lesson = (await search(call, caller(), stores)).items[0].id
    await retire(RetireKnowledge(scope=SCOPE, id=lesson), caller(), stores)


async def _document(stores: Stores) -> None:
    await document(DocumentDecision(**PLACE, kind="gate", decision="passed"), caller(), stores)


async def _explain(stores: Stores) -> None:
    await explain(stores, "local", "run-5")


async def _health(stores: Stores) -> None:
    assert {tier.health for tier in (await health("local", stores)).tiers if tier.tier == "signatures"} == {"ok"}


async def _project(stores: Stores) -> None:
    await _steps(stores)
    await index_follower(stores, "local").step()


@pytest.mark.parametrize("use", [_steps, _recall, _search, _retire, _document, _explain, _health, _project])
async def test_no_use_of_memory_reads_a_growing_table_from_end_to_end(
    settings: MemorySettings, database: Database, use: Callable[[Stores], Awaitable[None]]
) -> None:
    before = await scans(database)
    stores = build_stores(replace(settings, pool_min_size=1, pool_max_size=4))
    await stores.pool.open()
    await use(stores)
    await stores.pool.close()
    await everybody_left(database)
    after = await scans(database)
    assert {name: after[name] - before[name] for name in GROWING} == dict.fromkeys(GROWING, 0)
