"""ProjectJournal on a real server: it copies, compares and swaps, and goes on where a killed worker was."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from activities import projection
from activities.projection import RebuildActivities
from memory import rebuild
from memory.stores import Stores
from poimen.contracts.message import decode
from poimen.contracts.rebuild import MOST_FAILED, ProjectJournalResult
from tests.fixtures_postgres import Database
from tests.projection.conftest import SECONDS, FailingIndex, differences, follow, item_ids, teach
from tests.workflows.conftest import RUNNER
from workflows.project_journal import ProjectJournal
from workflows.step_ports import TENANT


@asynccontextmanager
async def served(client: Client, queue: str, stores: Stores) -> AsyncIterator[None]:
    activities = RebuildActivities(stores).all()
    async with Worker(
        client, task_queue=queue, workflows=[ProjectJournal], activities=activities, workflow_runner=RUNNER
    ):
        yield


async def start(client: Client, queue: str, *message: Any) -> WorkflowHandle[Any, dict[str, Any]]:
    return await client.start_workflow(
        "ProjectJournal", *message, id=f"rebuild-{queue}", task_queue=queue, result_type=dict
    )


async def test_a_rebuild_copies_compares_and_swaps_and_keeps_the_former_generation(
    temporal_client: Client, task_queue: str, stores: Stores
) -> None:
    await teach(stores, "free the port", "warm the cache", "drain the queue")
    await follow(stores)
    async with served(temporal_client, task_queue, stores):
        handle = await start(temporal_client, task_queue)
        result = decode(ProjectJournalResult, await handle.result()).message
        progress = await handle.query("progress")
        attributes = (await handle.describe()).typed_search_attributes
    assert result == ProjectJournalResult(
        tenant="local", index="pgvector", embedder="", generation=2, items=3, kept=1, failed=0
    )
    assert progress == {"stage": "done", "items": 3, "failed": 0, "tenant": "local", "generation": 2}
    assert attributes[TENANT] == "local"
    assert await differences(stores) == []


async def test_a_long_rebuild_goes_on_in_new_executions(
    temporal_client: Client, task_queue: str, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection, "STRETCH_ITEMS", 1)
    monkeypatch.setattr(rebuild.copy_page, "__defaults__", (1,))
    await teach(stores, "free the port", "warm the cache", "drain the queue")
    async with served(temporal_client, task_queue, stores):
        handle = await start(temporal_client, task_queue, {"tenant": "local"})
        result = decode(ProjectJournalResult, await handle.result()).message
        history = await temporal_client.get_workflow_handle(
            handle.id, run_id=handle.first_execution_run_id
        ).fetch_history()
    assert result.items == 3
    copies = [e for e in history.events if e.activity_task_scheduled_event_attributes.activity_type.name == "CopyItems"]
    assert len(copies) == 4
    assert await differences(stores) == []


async def test_an_attempt_that_was_cut_short_goes_on_where_its_heartbeat_was(
    temporal_client: Client, task_queue: str, failing: tuple[Stores, FailingIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild.copy_page, "__defaults__", (1,))
    stores, index = failing
    await teach(stores, "free the port", "warm the cache", "drain the queue")
    await follow(stores)
    index.puts.clear()
    index.down = lambda put: put == 3
    async with served(temporal_client, task_queue, stores):
        handle = await start(temporal_client, task_queue)
        result = decode(ProjectJournalResult, await handle.result()).message
    copied = [put for put in index.puts if len(put) == 1][:4]
    assert copied[2] == copied[3]
    assert copied[0] != copied[1] != copied[2]
    assert result.items == 3


async def test_what_differs_is_not_put_in_place(
    temporal_client: Client, task_queue: str, stores: Stores, database: Database
) -> None:
    await teach(stores, "free the port", "warm the cache")
    await follow(stores)
    # The new generation gets no writes: whatever is copied goes to the live one alone.
    await database.run_sql(
        "create function lose() returns trigger language plpgsql as $$ begin return null; end $$;"
        "create trigger lose before insert on index_documents for each row execute function lose();"
    )
    async with served(temporal_client, task_queue, stores):
        handle = await start(temporal_client, task_queue)
        with pytest.raises(WorkflowFailureError) as error:
            await handle.result()
    cause = error.value.cause
    assert isinstance(cause, ApplicationError)
    assert cause.message.startswith("The new generation differs from what is on record in 2 places: acme/api les-")
    known = await stores.index.generations("local", deadline_seconds=SECONDS)
    assert [(one.number, one.state) for one in known] == [(2, "building"), (1, "live")]


async def test_an_item_that_did_not_go_in_at_first_excuses_no_other(
    temporal_client: Client, task_queue: str, failing: tuple[Stores, FailingIndex], database: Database
) -> None:
    stores, index = failing
    await teach(stores, "free the port", "warm the cache")
    await follow(stores)
    late, lost = await item_ids(database)
    await database.run_sql(
        "create function lose() returns trigger language plpgsql as $$ begin return null; end $$;"
        f"create trigger lose before insert on index_documents for each row when (new.id = '{lost}')"
        " execute function lose();"
    )
    index.puts.clear()
    index.poison = {late}
    # It goes in when the changes are brought, after all tries of the copy.
    index.down = lambda put: put > rebuild.TRIES and index.poison.clear() is not None
    async with served(temporal_client, task_queue, stores):
        handle = await start(temporal_client, task_queue)
        with pytest.raises(WorkflowFailureError) as error:
            await handle.result()
    assert f"in 1 place: acme/api {lost} is not in the index" in str(error.value.cause)


async def test_what_does_not_go_in_is_named_and_stops_no_rebuild(
    temporal_client: Client, task_queue: str, failing: tuple[Stores, FailingIndex], database: Database
) -> None:
    stores, index = failing
    await teach(stores, "free the port", "warm the cache")
    await follow(stores)
    _, poison = await item_ids(database)
    index.poison = {poison}
    async with served(temporal_client, task_queue, stores):
        result = decode(ProjectJournalResult, await (await start(temporal_client, task_queue)).result()).message
    assert (result.generation, result.items, result.failed, result.failed_ids) == (2, 2, 1, (poison,))


async def test_an_index_that_refuses_more_than_can_be_named_is_not_put_in_place(
    temporal_client: Client, task_queue: str, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    await teach(stores, "free the port")
    await follow(stores)

    async def refused(*_: object) -> rebuild.Stretch:
        return rebuild.Stretch(None, 200, tuple(f"les-{number}" for number in range(MOST_FAILED + 1)))

    monkeypatch.setattr(projection, "copy_page", refused)
    async with served(temporal_client, task_queue, stores):
        handle = await start(temporal_client, task_queue)
        with pytest.raises(WorkflowFailureError) as error:
            await handle.result()
    assert "More than 100 items do not go into the new generation, les-0 among them" in str(error.value.cause)


async def test_a_rebuild_whose_place_another_took_ends(
    temporal_client: Client, task_queue: str, failing: tuple[Stores, FailingIndex]
) -> None:
    stores, index = failing
    await teach(stores, "free the port")
    await follow(stores)
    begun = asyncio.Event()
    index.down = lambda _put: begun.set() or True  # type: ignore[func-returns-value]
    async with served(temporal_client, task_queue, stores):
        handle = await start(temporal_client, task_queue)
        await begun.wait()
        await stores.index.begin("local", deadline_seconds=SECONDS)
        with pytest.raises(WorkflowFailureError) as error:
            await handle.result()
    cause = error.value.cause.__cause__ or error.value.cause
    assert "another rebuild took its place" in str(cause)
