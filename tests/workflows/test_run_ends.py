"""Runs that are cancelled, reset, started again under an old id, or continued as new."""

import os
import uuid
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError

from activities.boundary import MemoryActivities
from tests.fixtures_postgres import Database
from tests.workflows.conftest import (
    Harness,
    StandInMemory,
    appears,
    one_phase,
    opened_stores,
    step,
    workers,
)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def _cancelled_while_running(harness: Harness) -> tuple[WorkflowHandle[Any, Any], int]:
    pid_file = harness.workspace / "pid"
    handle = await harness.start(
        one_phase(
            step("serve", f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 60"),
            step("other", "true"),
        )
    )
    await appears(pid_file)
    pid = int(pid_file.read_text())
    await handle.cancel()
    return handle, pid


async def test_cancelling_a_run_stops_the_running_command(harness: Harness) -> None:
    handle, pid = await _cancelled_while_running(harness)

    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()

    assert isinstance(failed.value.cause, CancelledError)
    assert not _is_alive(pid)


async def test_a_cancelled_run_documents_its_steps_and_one_end(harness: Harness) -> None:
    handle, _ = await _cancelled_while_running(harness)

    with pytest.raises(WorkflowFailureError):
        await handle.result()

    documented = [(m["kind"], m["step"], m["end"]) for m in harness.memory.of("DocumentDecision")]
    assert ("step_completion", "serve", "cancelled") in documented
    assert [end for kind, _, end in documented if kind == "run_final"] == ["cancelled"]


async def test_a_cancelled_step_alone_ends_as_cancelled(harness: Harness) -> None:
    pid_file = harness.workspace / "pid"
    body = step("serve", f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 60")
    handle = await harness.client.start_workflow(
        "HarnessStep",
        {"scope": "acme/api", "step": body, "workspace": str(harness.workspace)},
        id=f"step-{harness.queue}",
        task_queue=harness.queue,
    )
    await appears(pid_file)
    await handle.cancel()

    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()

    assert isinstance(failed.value.cause, CancelledError)
    assert harness.memory.of("DocumentDecision")[0]["end"] == "cancelled"


@pytest.mark.parametrize("kind", ["HarnessRun", "HarnessStep"])
async def test_what_is_cancelled_before_a_worker_took_it_is_documented_too(
    temporal_client: Client, task_queue: str, memory: StandInMemory, tmp_path: Path, kind: str
) -> None:
    body = step("build", "true")
    message = {"definition": one_phase(body)} if kind == "HarnessRun" else {"scope": "acme/api", "step": body}
    handle = await temporal_client.start_workflow(kind, message, id=f"early-{task_queue}", task_queue=task_queue)
    await handle.cancel()
    async with workers(temporal_client, task_queue, memory, tmp_path):
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()

    assert isinstance(failed.value.cause, CancelledError)
    assert [message["end"] for message in memory.of("DocumentDecision")] == ["cancelled"]


@pytest.mark.parametrize("kind", ["HarnessRun", "HarnessStep"])
async def test_a_workflow_id_that_leaves_no_room_for_its_parts_is_refused_at_once(harness: Harness, kind: str) -> None:
    body = step("build", "true")
    message = {"definition": one_phase(body)} if kind == "HarnessRun" else {"scope": "acme/api", "step": body}
    handle = await harness.client.start_workflow(kind, message, id="x" * 990, task_queue=harness.queue)

    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()

    assert f"The id of a {kind} workflow has 990 bytes; at most 9" in str(failed.value.cause)


async def test_a_terminated_run_lets_its_steps_stop_their_commands(harness: Harness) -> None:
    pid_file = harness.workspace / "pid"
    handle = await harness.start(
        one_phase(step("serve", f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 60"))
    )
    await appears(pid_file)
    pid = int(pid_file.read_text())
    await handle.terminate()

    with pytest.raises(WorkflowFailureError):
        await harness.client.get_workflow_handle(f"{handle.id}/serve").result()

    assert not _is_alive(pid)


async def test_a_step_runs_alone(harness: Harness) -> None:
    answer = await harness.client.execute_workflow(
        "HarnessStep",
        {"scope": "acme/api", "step": {"id": "build", "run": {"command": ["true"]}}},
        id=f"step-{harness.queue}",
        task_queue=harness.queue,
    )

    assert (answer["end"], answer["reason"]) == ("succeeded", "passed")


async def _reset(client: Client, workflow_id: str, run_id: str, event_id: int) -> str:
    answer = await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
            reason="try again",
            workflow_task_finish_event_id=event_id,
            request_id=str(uuid.uuid4()),
        )
    )
    return answer.run_id


async def test_a_reset_run_is_a_branch_of_its_own_and_meets_no_conflict(
    remembering: Harness, database: Database
) -> None:
    handle = await remembering.start(one_phase(step("build", "exit 1")), f"reset-{uuid.uuid4().hex[:8]}")
    first = await remembering.ended(handle)
    run_id = str(handle.first_execution_run_id)

    again = await _reset(remembering.client, handle.id, run_id, 4)
    second = await remembering.ended(remembering.client.get_workflow_handle(handle.id, run_id=again, result_type=dict))

    rows = await database.run_sql(
        "SELECT DISTINCT coalesce(branch, 'none'), run FROM journal WHERE kind = 'decision_documented'"
    )
    assert (first["end"], second["end"], second["undelivered_records"]) == ("failed", "failed", 0)
    assert sorted(rows.split()) == sorted([f"none|{run_id}", f"{again[:8]}|{run_id}"])


async def test_a_run_reset_in_mid_step_ends_the_former_command_and_runs_the_step_again(harness: Harness) -> None:
    pids = harness.workspace / "pids"
    script = f"echo $$ >> {pids}; [ $(wc -l < {pids}) -ge 2 ] || exec sleep 60"
    handle = await harness.start(one_phase(step("serve", script)))
    await appears(pids)

    again = await _reset(harness.client, handle.id, str(handle.first_execution_run_id), 4)
    result = await harness.ended(harness.client.get_workflow_handle(handle.id, run_id=again, result_type=dict))

    assert (result["end"], result["attempts"]) == ("succeeded", 1)
    assert not _is_alive(int(pids.read_text().split()[0]))


async def test_a_workflow_id_used_again_is_a_new_run(remembering: Harness, database: Database) -> None:
    workflow_id = f"again-{uuid.uuid4().hex[:8]}"

    results = [
        await remembering.ended(await remembering.start(one_phase(step("build", "true")), workflow_id))
        for _ in range(2)
    ]

    finals = await database.run_sql("SELECT run FROM journal WHERE payload ->> 'kind' = 'run_final'")
    assert sorted(finals.split()) == sorted(result["run"] for result in results)
    assert [result["undelivered_records"] for result in results] == [0, 0]


async def test_a_long_run_continues_as_new_and_is_still_one_run(
    short_history_client: Client, task_queue: str, database: Database, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    plan = step("plan", f"echo x >> {count}")
    build = step("build", f"test $(wc -l < {count}) -ge 4", needs=["plan"], on_failure={"go_to": "plan", "at_most": 9})
    build["retry"] = {"attempts": 1}
    async with (
        opened_stores(database.app_dsn, tmp_path) as stores,
        workers(short_history_client, task_queue, MemoryActivities(stores), tmp_path),
    ):
        harness = Harness(short_history_client, task_queue, tmp_path, StandInMemory())
        result = await harness.ended(await harness.start(one_phase(plan, build), "long"))
        runs = [run async for run in short_history_client.list_workflows("WorkflowId = 'long'")]

    assert len(runs) > 1
    assert (result["end"], result["attempts"]) == ("succeeded", 8)
    assert [s["visit"] for s in result["steps"] if s["step"] == "build"] == [1, 2, 3, 4]
    rows = await database.run_sql(
        "SELECT count(*), count(DISTINCT run), count(*) FILTER (WHERE payload ->> 'kind' = 'run_final') FROM journal"
        " WHERE kind = 'decision_documented' AND branch IS NULL"
    )
    assert rows.strip().split("|")[1:] == ["1", "1"]
