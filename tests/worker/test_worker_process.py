"""The worker as a process, between a real Temporal and a real Postgres."""

import json
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from tests.fixtures_postgres import Database
from tests.tcp_proxy import TcpProxy
from tests.worker.running import Place, is_polled, place_of, until, until_polled, until_there, worker_process
from worker.search_attributes import create_command, ensure_search_attributes, missing_search_attributes
from worker.stack.postgres import RunningPostgres
from worker.stack.state import choose_ports
from worker.stack.temporal import RunningTemporal


def harness(*script: str, **more: Any) -> dict[str, Any]:
    """A definition with a step for each shell script."""
    steps = [{"id": f"s{n}", "run": {"command": ["sh", "-c", text]}} for n, text in enumerate(script, 1)]
    retry = {"attempts": 2, "first_delay": "0s"}
    return {"name": "checks", "scope": "acme/api", "retry": retry, "phases": [{"id": "T0", "steps": steps}], **more}


async def test_the_temporal_command_line_starts_runs_and_calls_activities(served: Place) -> None:
    script = "test -e ok || { touch ok; echo 'OSError: no' >&2; exit 1; }"
    (served.folder / "run.json").write_text(json.dumps({"definition": harness(script)}))
    started = ("--type", "HarnessRun", "--task-queue", served.queue, "--workflow-id", "by-cli")
    assert (await served.temporal("workflow", "start", *started, "--input-file", "run.json")).code == 0
    ended = await served.temporal("workflow", "result", "--workflow-id", "by-cli", "-o", "json")
    assert ended.json["result"]["end"] == "succeeded"
    assert ended.json["result"]["steps"][0]["attempts"] == 2
    asked = ("--input", '{"scope":"acme/api","step":"s1","render":true}', "--schedule-to-close-timeout", "5s")
    call = ("--type", "GetContext", "--task-queue", served.queue, "--activity-id", "c1", "-o", "json")
    package = (await served.temporal("activity", "execute", *call, *asked)).json["result"]
    assert package["items"][0]["kind"] == "lesson"
    assert "s1 failed 1 time in 1 run" in package["text"]


async def test_what_a_run_taught_is_found_by_searching(served: Place, temporal_client: Client) -> None:
    (served.folder / "index.txt").unlink(missing_ok=True)
    script = "test -e index.txt || { touch index.txt; echo 'PermissionError: [Errno 13] zebra' >&2; exit 1; }"
    await temporal_client.execute_workflow(
        "HarnessRun", {"definition": harness(script)}, id=str(uuid.uuid4()), task_queue=served.queue
    )

    async def indexed() -> bool:
        return int(await served.database.run_sql("SELECT count(*) FROM index_documents;")) > 0

    await until(indexed)


async def test_told_to_end_a_worker_drains_and_exits_with_0(
    database: Database, tmp_path: Path, task_queue: str, temporal_server: RunningTemporal, temporal_client: Client
) -> None:
    place = place_of(task_queue, database, tmp_path, temporal_server.address)
    async with worker_process(place) as worker:
        await until_polled(temporal_client, task_queue, worker)
        definition = harness("touch began; sleep 1; touch finished")
        run = await temporal_client.start_workflow(
            "HarnessRun", {"definition": definition}, id=task_queue, task_queue=task_queue
        )
        await until_there(tmp_path / "began")
        assert await worker.end() == 0
        assert (tmp_path / "finished").exists(), "the running command was given its time"
    last = json.loads(worker.said.splitlines()[-1])
    assert (last["event"], last["code"]) == ("The worker ended.", 0)
    assert database.app_dsn not in worker.said
    await run.terminate()


async def test_a_second_signal_ends_it_at_once_with_1_and_its_commands_too(
    database: Database, tmp_path: Path, task_queue: str, temporal_server: RunningTemporal, temporal_client: Client
) -> None:
    place = place_of(task_queue, database, tmp_path, temporal_server.address, POIMEN_GRACE_SECONDS="30")
    async with worker_process(place) as worker:
        await until_polled(temporal_client, task_queue, worker)
        definition = harness("echo $$ > began.new; mv began.new began; sleep 600")
        run = await temporal_client.start_workflow(
            "HarnessRun", {"definition": definition}, id=task_queue, task_queue=task_queue
        )
        await until_there(tmp_path / "began")
        worker.process.terminate()
        assert worker.process.stderr is not None
        async for line in worker.process.stderr:
            if b"told to end" in line:
                break
        assert await worker.end() == 1
    shell = (tmp_path / "began").read_text().strip()

    async def gone() -> bool:
        return not _runs(shell)

    await until(gone)
    await run.terminate()


async def test_with_postgres_down_at_the_start_runs_go_on_and_records_arrive_later(
    database: Database,
    tmp_path: Path,
    task_queue: str,
    temporal_server: RunningTemporal,
    temporal_client: Client,
    postgres_server: RunningPostgres,
    tcp_proxy: Callable[[str, int], Awaitable[TcpProxy]],
) -> None:
    proxy = await tcp_proxy("127.0.0.1", postgres_server.port)
    await proxy.refuse()
    place = place_of(task_queue, database, tmp_path, temporal_server.address)
    behind = {**place.variables, "POIMEN_POSTGRES_DSN": database.app_dsn_through(proxy)}
    place = Place(task_queue, database, tmp_path, behind)
    async with worker_process(place) as worker:
        await until_polled(temporal_client, task_queue, worker)
        result = await temporal_client.execute_workflow(
            "HarnessRun", {"definition": harness("true")}, id=task_queue, task_queue=task_queue, result_type=dict
        )
        assert result["end"] == "succeeded"
        assert result["undelivered_records"] > 0
        await proxy.pass_on()
        await until(lambda: place.count("payload->>'kind' = 'run_final'"))
        assert await worker.end() == 0
    assert "Memory is down" in worker.said
    assert "Memory is up" in worker.said


async def test_with_a_wrong_password_it_says_so_and_polls(
    database: Database, tmp_path: Path, task_queue: str, temporal_server: RunningTemporal, temporal_client: Client
) -> None:
    dsn = database.app_dsn.replace("@", ":not-the-password@")
    place = place_of(task_queue, database, tmp_path, temporal_server.address)
    place = Place(task_queue, database, tmp_path, {**place.variables, "POIMEN_POSTGRES_DSN": dsn})
    async with worker_process(place) as worker:
        await until_polled(temporal_client, task_queue, worker)
        assert await worker.end() == 0
    assert worker.said.count("Postgres refuses the user or its password.") == 1
    assert "not-the-password" not in worker.said


async def test_an_executor_needs_no_store_and_polls_only_its_own_queues(
    tmp_path: Path, task_queue: str, temporal_server: RunningTemporal, temporal_client: Client
) -> None:
    variables = {"TEMPORAL_ADDRESS": temporal_server.address, "POIMEN_TASK_QUEUE": task_queue}
    place = Place(task_queue, None, tmp_path, {**variables, "POIMEN_STATE": str(tmp_path)})  # type: ignore[arg-type]
    async with worker_process(place, "--role", "executor") as worker:
        await until_polled(temporal_client, f"{task_queue}-executors", worker)
        host = (tmp_path / "host").read_text()
        await until_polled(temporal_client, f"{task_queue}-executor-{host}", worker)
        assert not await is_polled(temporal_client, task_queue)
        assert await worker.end() == 0


async def test_a_database_that_was_never_migrated_ends_it_with_4(
    postgres_server: RunningPostgres, tmp_path: Path, task_queue: str, temporal_server: RunningTemporal
) -> None:
    empty = Database("postgres", postgres_server)
    place = place_of(task_queue, empty, tmp_path, temporal_server.address)
    async with worker_process(place) as worker:
        assert await worker.wait() == 4
    assert worker.said.splitlines()[-1] == "The database is empty; run poimen migrate."


async def test_a_role_that_sees_every_tenant_is_refused_with_4(
    database: Database, tmp_path: Path, task_queue: str, temporal_server: RunningTemporal
) -> None:
    place = place_of(task_queue, database, tmp_path, temporal_server.address)
    place = Place(task_queue, database, tmp_path, {**place.variables, "POIMEN_POSTGRES_DSN": database.superuser_dsn})
    async with worker_process(place) as worker:
        assert await worker.wait() == 4
    assert "superuser" in worker.said.splitlines()[-1]


async def test_without_temporal_it_ends_with_3_and_says_where_it_looked(
    database: Database, tmp_path: Path, task_queue: str
) -> None:
    address = f"127.0.0.1:{choose_ports(['none'])['none']}"
    place = place_of(task_queue, database, tmp_path, address, POIMEN_CONNECT_SECONDS="0.1")
    async with worker_process(place) as worker:
        assert await worker.wait() == 3
    assert worker.said.splitlines()[-1].startswith(f"Temporal does not answer at {address};")


async def test_search_attributes_are_added_to_a_dev_server(
    temporal_client: Client, temporal_server: RunningTemporal
) -> None:
    name = f"bare-{uuid.uuid4().hex[:8]}"
    request = RegisterNamespaceRequest(namespace=name)
    request.workflow_execution_retention_period.FromSeconds(86_400)
    await temporal_client.workflow_service.register_namespace(request)
    client = await Client.connect(temporal_server.address, namespace=name)
    await until(lambda: _missing(client))
    assert "MemoryHits" in await ensure_search_attributes(client)
    assert await _missing(client) == []
    assert await ensure_search_attributes(client) == []


def test_elsewhere_the_command_that_adds_search_attributes_is_told() -> None:
    told = create_command(["MemoryScope", "MemoryHits"])
    assert told == (
        "temporal operator search-attribute create --name MemoryScope --type Keyword --name MemoryHits --type Int"
    )


async def _missing(client: Client) -> list[str] | None:
    try:
        return await missing_search_attributes(client)
    except RPCError:  # the frontend has not heard of a new namespace yet
        return None


def _runs(pid: str) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
