"""`poimen rebuild --index` and `poimen verify` as a person runs them, and a worker whose embedder is another."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client

from memory.rebuild import check_embedder
from memory.stores import Stores
from memory.vectors.pgvector import PgvectorIndex
from tests.fixtures_postgres import Database
from tests.projection.conftest import follow, teach
from tests.vectors.hashed import HashedEmbedder
from tests.worker.running import Place, place_of, worker_process
from worker import logs
from worker.bootstrap import rebuild_queue
from worker.cli import rebuild, verify
from worker.cli.arguments import parse
from worker.stack.temporal import RunningTemporal


@dataclass
class Terminal:
    """Runs commands in this process: a program of its own takes seconds to start, and is tested with the others."""

    capsys: pytest.CaptureFixture[str]

    async def poimen(self, *arguments: str) -> tuple[int, str]:
        """Run a command; return its exit code and what it printed."""
        parsed = parse(arguments)
        self.capsys.readouterr()
        code = await (rebuild if parsed.command == "rebuild" else verify).run(parsed)
        return code, self.capsys.readouterr().out

    async def json(self, *arguments: str) -> tuple[int, Any]:
        code, out = await self.poimen(*arguments, "--json")
        return code, json.loads(out)


@pytest_asyncio.fixture(loop_scope="session")
async def place(
    stores: Stores, database: Database, task_queue: str, tmp_path: Path, temporal_server: RunningTemporal
) -> Place:
    """A place that searches by words alone, and whose index holds three lessons and was made by an embedder."""
    embedder = HashedEmbedder("former")
    await teach(stores, "free the port", "warm the cache", "drain the queue")
    await follow(replace(stores, index=PgvectorIndex(stores.pool, embedder), embedder=embedder))
    return place_of(task_queue, database, tmp_path, temporal_server.address)


@pytest.fixture
def terminal(place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal in the place."""
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    return Terminal(capsys)


async def test_a_worker_with_another_embedder_refuses_to_start_until_the_index_is_rebuilt(
    place: Place, terminal: Terminal, stores: Stores
) -> None:
    async with worker_process(place) as worker:
        assert await worker.wait() == 4
    assert "The index of local was made by former" in worker.said
    assert "poimen rebuild --index" in worker.said

    assert await terminal.poimen("rebuild", "--index") == (
        0,
        "local: generation 2 of pgvector is live, made by words alone, 3 items; generation 1 is kept\n",
    )
    await check_embedder(stores)
    code, verified = await terminal.json("verify")
    assert (code, verified["count"], verified["differences"]) == (0, 0, [])
    (compared,) = verified["compared"]
    assert (compared["index"], compared["generation"], compared["counts"]["entries"]) == ("pgvector", 2, 3)


@pytest.mark.usefixtures("soon")
async def test_verify_prints_each_difference_and_exits_with_1(terminal: Terminal, database: Database) -> None:
    await database.run_sql("update items set text = 'another' where text = 'warm the cache';")
    code, out = await terminal.poimen("verify")
    assert code == 1
    named, summary = out.splitlines()
    assert named.startswith("local index acme/api les-")
    assert named.endswith(": has another content in the index than on record")
    assert summary.endswith("(pgvector, generation 1): 1 difference")


async def test_a_rebuild_that_was_left_goes_on_when_it_is_run_again(
    place: Place, terminal: Terminal, temporal_client: Client
) -> None:
    queue = rebuild_queue(place.queue)
    left = await temporal_client.start_workflow("ProjectJournal", id=f"{queue}/local", task_queue=queue)
    code, results = await terminal.json("rebuild", "--index")
    assert (code, results) == (0, [await left.result()])


def test_a_rebuild_names_what_is_built_anew(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        parse(["rebuild"])
    assert refused.value.code == 2
    assert "--index" in capsys.readouterr().err
