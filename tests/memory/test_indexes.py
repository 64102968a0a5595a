"""Whatever is looked up is looked up by an index: a sequential scan of a table that grows is found by its counter."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, LiteralString

import pytest

from benchmarks.lookup import fill
from memory.diagnose import SQL as DIAGNOSE_SQL
from memory.document import document
from memory.items import SQL as ITEMS_SQL
from memory.journal import Follower
from memory.knowledge import SQL as KNOWLEDGE_SQL
from memory.knowledge import retire, search
from memory.observations import observations, occurrence_attempts
from memory.postgres import statement, tenant_transaction
from memory.recall import recall
from memory.settings import MemorySettings
from memory.step_knowledge import SQL as STEP_SQL
from memory.stores import Stores, build_stores
from memory.vectors.lexical import SQL as LEXICAL_SQL
from memory.vectors.project import FOLLOWER, index_projection
from memory.why import explain
from poimen.contracts.memory_calls import DocumentDecision, GetContext, RetireKnowledge, SearchKnowledge
from tests.fixtures_postgres import Database
from tests.memory.acted_step import PORT_TAKEN, ActedStep, caller, cured_by

ROWS = 5_000
SCOPE = "scope-1"
PLACE = {"scope": SCOPE, "step": "step-1"}
ISSUE = {"scope": SCOPE, "signatures": ["s1:x"], "alike": ["s1:x"], "limit": 5}
GROWING = {
    "aliases",
    "attempts",
    "bodies",
    "environments",
    "items",
    "journal",
    "lexical_documents",
    "lexical_postings",
    "receipts",
    "signatures",
    "step_outcomes",
}


@pytest.fixture
async def filled(settings: MemorySettings, database: Database) -> MemorySettings:
    for script in fill(ROWS):
        await database.run_sql(script)
    return settings


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


LOOK_UPS = {
    "observations": observations(SCOPE, [f"les-{n}" for n in range(12)]),
    "occurrence": occurrence_attempts(**PLACE, occurrence="run-5/step-1"),
    "lessons": statement(STEP_SQL["lessons"], **PLACE, first="s1:x", outcomes=100, attempts=200, limit=12),
    "latest_outcomes": statement(STEP_SQL["latest_outcomes"], **PLACE, limit=100),
    "helped": statement(STEP_SQL["helped"], **PLACE, limit=20),
    "signature_words": statement(STEP_SQL["signature_words"], scope=SCOPE, signature="s1:x"),
    "told_lessons": statement(ITEMS_SQL["told_lessons"], **PLACE, limit=2),
    "lessons_of_signature": statement(
        KNOWLEDGE_SQL["lessons_of_signature"], scope=SCOPE, signatures=["s1:x"], limit=10
    ),
    "seen_signature": statement(DIAGNOSE_SQL["seen_signature"], scope=SCOPE, signatures=["s1:x"]),
    "signatures_alike": statement(DIAGNOSE_SQL["signatures_alike"], scope=SCOPE, signatures=["s1:x"]),
    "same_failure": statement(DIAGNOSE_SQL["same_failure"], **ISSUE, scopes=["@library", SCOPE], step=None),
    "relatives": statement(DIAGNOSE_SQL["relatives"], **ISSUE, family="f1:x"),
    "relatives_of_a_signature": statement(DIAGNOSE_SQL["relatives"], **ISSUE, family=None),
    "items_like": statement(ITEMS_SQL["items_like"], beginning="les-7f3c21d0", scope=SCOPE),
    "search": statement(LEXICAL_SQL["search"], scopes=["@library", SCOPE], terms=["failure", "w17"], kinds=[], limit=6),
}


def scanned(plan: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (table, kind of scan) of every node of a plan that reads a table."""
    if "Relation Name" in plan:
        yield plan["Relation Name"], plan["Node Type"]
    for below in plan.get("Plans", ()):
        yield from scanned(below)


async def test_every_look_up_uses_an_index(filled: MemorySettings) -> None:
    stores = build_stores(filled)
    await stores.pool.open()
    found = {}
    for name, asked in LOOK_UPS.items():
        async with tenant_transaction(stores.pool, "local", deadline_seconds=20) as tx:
            explained: LiteralString = f"explain (format json) {asked.query}"
            row = await tx.row(explained, **asked.values)
            assert row is not None
            found[name] = set(scanned(row["QUERY PLAN"][0]["Plan"]))
    await stores.pool.close()
    assert {name: plan for name, plan in found.items() if any(kind == "Seq Scan" for _, kind in plan)} == {}
    # All of them did read a table.
    assert all(found.values())


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


async def _project(stores: Stores) -> None:
    await _steps(stores)
    await Follower(stores.pool, "local", FOLLOWER, index_projection(stores)).step()


@pytest.mark.parametrize("use", [_steps, _recall, _search, _retire, _document, _explain, _project])
async def test_no_use_of_memory_reads_a_growing_table_from_end_to_end(
    filled: MemorySettings, database: Database, use: Callable[[Stores], Awaitable[None]]
) -> None:
    before = await scans(database)
    stores = build_stores(replace(filled, pool_min_size=1, pool_max_size=4))
    await stores.pool.open()
    await use(stores)
    await stores.pool.close()
    await everybody_left(database)
    after = await scans(database)
    assert {name: after[name] - before[name] for name in GROWING} == dict.fromkeys(GROWING, 0)
