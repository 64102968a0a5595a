"""Two tenants of one worker see nothing of each other, whichever activity they use."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from temporalio.exceptions import ApplicationError

from activities.table import TABLE
from memory.stores import Stores, build_stores
from memory.vectors.project import index_follower
from tests.activities.conftest import Call, caller_of
from tests.fixtures_postgres import Database

PLACE = {"scope": "acme/api", "step": "serve", "run": "rel-1", "idempotency_key": "the same key"}
CANARY = "xylophone"
FAILED = {**PLACE, "error": f"OSError: [Errno 98] Address already in use: {CANARY}"}
CALLS: dict[str, dict[str, Any]] = {
    "GetContext": {**PLACE, "task": CANARY, "last_failure": CANARY, "deadline_ms": 20_000},
    "LearnFromExecution": {**PLACE, "outcome": "failed", "lesson": f"Tune the {CANARY} before the recital begins."},
    "AnalyzeError": FAILED,
    "DocumentDecision": {**PLACE, "kind": "gate", "decision": CANARY},
    "SummariseRun": PLACE,
    "SearchKnowledge": {"scope": "acme/api", "query": FAILED["error"], "deadline_ms": 20_000},
    "DiagnoseIssue": {"scope": "acme/api", "text": FAILED["error"], "deadline_ms": 20_000},
    "RetireKnowledge": {"scope": "acme/api", "id": "les-00000000"},
    "HealthCheck": {},
}


@pytest_asyncio.fixture(loop_scope="session")
async def two_tenants(stores: Stores) -> AsyncIterator[tuple[Call, Stores]]:
    """Call as one of two tenants, "local" and "other"."""
    both = build_stores(replace(stores.settings, tenants=("local", "other")))
    await both.pool.open()
    yield caller_of(both), both
    await both.pool.close()


async def lesson_of(call: Call, tenant: str) -> str:
    """Make a failure and a told lesson of one tenant, and give the told one's id."""
    await call("AnalyzeError", {**FAILED, "tenant": tenant, "idempotency_key": "analyze"})
    told = await call("LearnFromExecution", {**CALLS["LearnFromExecution"], "tenant": tenant})
    return str(told["knowledge_ids"][0])


def test_every_activity_is_tried() -> None:
    assert set(CALLS) == {entry.name for entry in TABLE}


@pytest.mark.parametrize("name", [name for name in CALLS if name not in {"RetireKnowledge", "SummariseRun"}])
async def test_no_activity_tells_one_tenant_of_another(two_tenants: tuple[Call, Stores], name: str) -> None:
    call, stores = two_tenants
    await lesson_of(call, "local")
    await index_follower(stores, "local").step()
    # The other tenant's own call under the same keys is its first.
    answer = await call(name, {**CALLS[name], "tenant": "other"})
    assert not answer.get("duplicate", False)
    assert not answer.get("seen_before")
    assert [item for item in answer.get("items", []) if item["kind"] == "lesson"] == []
    assert answer.get("lessons", []) == []


async def test_an_item_of_another_tenant_cannot_be_retired(
    two_tenants: tuple[Call, Stores], database: Database
) -> None:
    call, _ = two_tenants
    lesson = await lesson_of(call, "local")
    with pytest.raises(ApplicationError) as caught:
        await call("RetireKnowledge", {"scope": "acme/api", "id": lesson, "tenant": "other"})
    assert caught.value.type == "NotFound"
    assert (await database.run_sql("select count(*) from items where state <> 'active';")).strip() == "0"


async def test_no_run_of_one_tenant_is_summarised_for_another(two_tenants: tuple[Call, Stores]) -> None:
    call, _ = two_tenants
    await lesson_of(call, "local")
    with pytest.raises(ApplicationError) as caught:
        await call("SummariseRun", {**CALLS["SummariseRun"], "tenant": "other"})
    assert caught.value.type == "NotFound"


@pytest.mark.parametrize("name", [entry.name for entry in TABLE if entry.writes])
async def test_no_activity_changes_the_librarys_scope(call: Call, database: Database, name: str) -> None:
    for scope in ("@library", "@anything"):
        with pytest.raises(ApplicationError) as caught:
            await call(name, {**CALLS[name], "scope": scope})
        assert (caught.value.type, caught.value.non_retryable) == ("Rejected", True)
    assert (await database.run_sql("select count(*) from journal;")).strip() == "0"


def test_only_what_reads_may_name_the_librarys_scope() -> None:
    reads = {"GetContext", "SearchKnowledge", "DiagnoseIssue", "HealthCheck"}
    assert {entry.name for entry in TABLE if not entry.writes} == reads
