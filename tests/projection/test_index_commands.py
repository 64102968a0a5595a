"""`poimen rebuild --index` and `poimen verify` as a person runs them, and a worker whose embedder is another."""

from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client

from memory.stores import Stores
from tests.fixtures_postgres import Database
from tests.projection.conftest import follow, teach
from tests.worker.running import Place, place_of, until_polled, worker_process
from worker.bootstrap import rebuild_queue
from worker.cli.arguments import parse
from worker.stack.temporal import RunningTemporal


@pytest_asyncio.fixture(loop_scope="session")
async def place(
    stores: Stores, database: Database, task_queue: str, tmp_path: Path, temporal_server: RunningTemporal
) -> Place:
    """A place whose index holds three lessons and was made by words alone."""
    await teach(stores, "free the port", "warm the cache", "drain the queue")
    await follow(stores)
    return place_of(task_queue, database, tmp_path, temporal_server.address)


async def test_a_worker_with_another_embedder_refuses_to_start_until_the_index_is_rebuilt(
    place: Place, temporal_client: Client
) -> None:
    meaning = replace(place, variables={**place.variables, "POIMEN_EMBEDDER": "minilm"})
    async with worker_process(meaning) as worker:
        assert await worker.wait() == 4
    assert "The index of local was made by words alone" in worker.said
    assert "poimen rebuild --index" in worker.said

    rebuilt = await meaning.poimen("rebuild", "--index")
    assert (rebuilt.code, rebuilt.out) == (
        0,
        "local: generation 2 of pgvector is live, made by all-MiniLM-L6-v2-int8, 3 items; generation 1 is kept\n",
    )
    verified = await meaning.poimen("verify", "--json")
    assert (verified.code, verified.json["count"], verified.json["differences"]) == (0, 0, [])
    (compared,) = verified.json["compared"]
    assert (compared["index"], compared["generation"], compared["counts"]["entries"]) == ("pgvector", 2, 3)
    async with worker_process(meaning, "--role", "memory") as worker:
        await until_polled(temporal_client, place.queue, worker)
        assert await worker.end() == 0


async def test_verify_prints_each_difference_and_exits_with_1(place: Place, database: Database) -> None:
    await database.run_sql("update items set text = 'another' where text = 'warm the cache';")
    verified = await place.poimen("verify")
    assert verified.code == 1
    named, summary = verified.out.splitlines()
    assert named.startswith("local index acme/api les-")
    assert named.endswith(": has another content in the index than on record")
    assert summary.endswith("(pgvector, generation 1): 1 difference")


async def test_a_rebuild_that_was_left_goes_on_when_it_is_run_again(place: Place, temporal_client: Client) -> None:
    queue = rebuild_queue(place.queue)
    left = await temporal_client.start_workflow("ProjectJournal", id=f"{queue}/local", task_queue=queue)
    rebuilt = await place.poimen("rebuild", "--index", "--json")
    assert (rebuilt.code, rebuilt.err) == (0, "")
    assert rebuilt.json == [await left.result()]


def test_a_rebuild_names_what_is_built_anew(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        parse(["rebuild"])
    assert refused.value.code == 2
    assert "--index" in capsys.readouterr().err
