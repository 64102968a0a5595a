"""Memory goes away: the harness finishes, says so, and the records arrive later."""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowHandle

from activities.boundary import MemoryActivities
from memory.errors import StoreUnavailable
from memory.vectors.project import index_follower
from tests.fixtures_postgres import Database
from tests.tcp_proxy import TcpProxy
from tests.workflows.conftest import Harness, StandInMemory, appears, one_phase, opened_stores, step, workers

INDEX_TABLES = "index_generations, index_corpora, index_documents, index_postings, index_vectors"
Break = Callable[[TcpProxy], Awaitable[None]]


async def _refuse(proxy: TcpProxy) -> None:
    await proxy.refuse()


async def _black_hole(proxy: TcpProxy) -> None:
    proxy.black_hole()


@pytest_asyncio.fixture(loop_scope="session")
async def proxy(database: Database, tcp_proxy: Callable[[str, int], Awaitable[TcpProxy]]) -> TcpProxy:
    return await tcp_proxy(database.server.host, database.server.port)


@pytest_asyncio.fixture(loop_scope="session")
async def behind_proxy(
    temporal_client: Client, task_queue: str, database: Database, proxy: TcpProxy, tmp_path: Path
) -> AsyncIterator[Harness]:
    """A harness whose memory reaches Postgres through the proxy."""
    async with (
        opened_stores(database.app_dsn_through(proxy), tmp_path) as stores,
        workers(temporal_client, task_queue, MemoryActivities(stores), tmp_path),
    ):
        yield Harness(temporal_client, task_queue, tmp_path, StandInMemory())


async def _kinds(database: Database) -> list[str]:
    return (await database.run_sql("SELECT kind FROM journal ORDER BY 1")).split()


async def _delivered(harness: Harness, workflow_id: str, run_id: str) -> list[dict[str, Any]]:
    """Wait for the children that deliver a workflow's records."""
    handle: WorkflowHandle[Any, Any] = harness.client.get_workflow_handle(
        f"{workflow_id}/records/{run_id}/1", result_type=dict
    )
    return [await handle.result()]


@pytest.mark.parametrize("outage", [_refuse, _black_hole])
async def test_a_run_finishes_without_postgres_and_its_records_arrive_later(
    behind_proxy: Harness, proxy: TcpProxy, database: Database, outage: Break
) -> None:
    await outage(proxy)
    body = step("build", "echo broken; exit 1", retry={"attempts": 2, "first_delay": "0s", "longest_delay": "0s"})

    handle = await behind_proxy.start(one_phase(body, step("pack", "true", needs=[])), f"down-{uuid.uuid4().hex[:8]}")
    result = await behind_proxy.ended(handle)
    assert await _kinds(database) == []
    await proxy.pass_on()
    for step_id in ("build", "pack"):
        child = await behind_proxy.client.get_workflow_handle(f"{handle.id}/{step_id}").describe()
        await _delivered(behind_proxy, child.id, child.run_id)
    await _delivered(behind_proxy, handle.id, str(handle.first_execution_run_id))

    assert {s["step"]: s["end"] for s in result["steps"]} == {"build": "failed", "pack": "succeeded"}
    # Two analysed failures, one success, two steps and the run's end: each once.
    assert await _kinds(database) == [
        "decision_documented",
        "decision_documented",
        "decision_documented",
        "error_analyzed",
        "error_analyzed",
        "execution_learned",
    ]
    assert result["undelivered_records"] == 6


async def test_a_run_says_that_memory_is_lost_while_it_runs(behind_proxy: Harness, proxy: TcpProxy) -> None:
    await proxy.refuse()
    go_on = behind_proxy.workspace / "go-on"
    started = behind_proxy.workspace / "started"
    script = f"touch {started}; while [ ! -e {go_on} ]; do sleep 0.05; done"

    handle = await behind_proxy.start(one_phase(step("build", script)), f"down-{uuid.uuid4().hex[:8]}")
    await appears(started)
    page = await behind_proxy.client.get_workflow_handle(f"{handle.id}/build").query("details")
    go_on.touch()
    await behind_proxy.ended(handle)

    assert "**Memory** lost" in page


async def test_a_loss_silences_memory_for_the_rest_of_a_short_step(
    behind_proxy: Harness, proxy: TcpProxy, temporal_client: Client
) -> None:
    await proxy.refuse()
    retry = {"attempts": 4, "first_delay": "0s", "longest_delay": "0s"}

    handle = await behind_proxy.start(one_phase(step("build", "exit 1", retry=retry)), f"down-{uuid.uuid4().hex[:8]}")
    await behind_proxy.ended(handle)
    history = await temporal_client.get_workflow_handle(f"{handle.id}/build").fetch_history()

    scheduled = [event for event in history.events if event.HasField("activity_task_scheduled_event_attributes")]
    names = [event.activity_task_scheduled_event_attributes.activity_type.name for event in scheduled]
    assert [name for name in names if name != "RunCommand"] == ["GetContext"]


async def test_a_vault_that_is_gone_costs_nothing_else(remembering: Harness) -> None:
    (remembering.workspace / "vault").rmdir()

    result = await remembering.run(one_phase(step("build", "true")))

    assert result["end"] == "succeeded"
    assert result["undelivered_records"] == 0


async def test_an_index_that_is_down_costs_nothing_else_and_catches_up(
    remembering: Harness, database: Database, tmp_path: Path
) -> None:
    await database.run_sql(f"REVOKE ALL ON {INDEX_TABLES} FROM poimen_app;")
    body = step("build", "test -e mark || { touch mark; echo 'OSError: [Errno 28] zebra'; exit 1; }")

    handle = await remembering.start(one_phase(body), f"index-{uuid.uuid4().hex[:8]}")
    result = await remembering.ended(handle)
    page = await remembering.client.get_workflow_handle(f"{handle.id}/build").query("details")

    assert (result["end"], result["attempts"], result["undelivered_records"]) == ("succeeded", 2, 0)
    assert re.search(r"signatures \d+ ms, vectors down, vault \d+ ms", page)
    # The step's end, the phase's and the run's, and the failure with what ended it.
    assert await _kinds(database) == [*["decision_documented"] * 3, "error_analyzed", "execution_learned"]
    async with opened_stores(database.app_dsn, tmp_path) as stores:
        follower = index_follower(stores, "local")
        with pytest.raises(StoreUnavailable):
            await follower.step()
        await database.run_sql(f"GRANT ALL ON {INDEX_TABLES} TO poimen_app;")
        while await follower.step():
            pass
        asked = {"scope": "acme/api", "query": "zebra", "tiers": ["vectors"]}
        found = await remembering.client.execute_activity(
            "SearchKnowledge",
            asked,
            id=f"found-{uuid.uuid4().hex[:8]}",
            task_queue=remembering.queue,
            schedule_to_close_timeout=timedelta(seconds=20),
            result_type=dict,
        )

    assert [item["tier"] for item in found["items"]] == ["vectors"]


async def test_records_wait_for_a_grant_that_is_missing(
    behind_proxy: Harness, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.errors.SCHEMA_RETRY_SECONDS", 0.2)
    await database.run_sql("REVOKE INSERT ON journal FROM poimen_app;")
    handle = await behind_proxy.start(one_phase(step("build", "true")), f"grant-{uuid.uuid4().hex[:8]}")
    result = await behind_proxy.ended(handle)
    child = await behind_proxy.client.get_workflow_handle(f"{handle.id}/build").describe()
    delivery = behind_proxy.client.get_workflow_handle(f"{child.id}/records/{child.run_id}/1")
    async with asyncio.timeout(30):
        while not await _tried_again(delivery):  # noqa: ASYNC110  because the server has no event to wait for
            await asyncio.sleep(0.05)
    await database.run_sql("GRANT INSERT ON journal TO poimen_app;")
    told = await _delivered(behind_proxy, child.id, str(child.run_id))

    assert result["end"] == "succeeded"
    assert told == [{"delivered": 2, "refused": []}]
    await _delivered(behind_proxy, handle.id, str(handle.first_execution_run_id))
    # The step's end, the phase's and the run's, and one success.
    assert await _kinds(database) == [*["decision_documented"] * 3, "execution_learned"]


async def _tried_again(delivery: WorkflowHandle[Any, Any]) -> bool:
    pending = (await delivery.describe()).raw_description.pending_activities
    return any(activity.attempt > 1 for activity in pending)
