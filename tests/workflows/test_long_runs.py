"""Runs whose histories are full, runs of one schedule, and budgets that must outlive both."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio import activity
from temporalio.client import Client, WorkflowFailureError
from temporalio.worker import Worker

from tests.workflows.conftest import Harness, StandInMemory, one_phase, step, workers


@pytest_asyncio.fixture(loop_scope="session")
async def short_histories(
    short_history_client: Client, task_queue: str, memory: StandInMemory, tmp_path: Path
) -> AsyncIterator[Harness]:
    """A harness whose server wants runs to continue as new after 40 events."""

    @activity.defn(name="pass")
    async def succeed(_work: dict[str, Any]) -> None:
        return None

    async with (
        Worker(short_history_client, task_queue=f"{task_queue}-own", activities=[succeed]),
        workers(short_history_client, task_queue, memory, tmp_path),
    ):
        yield Harness(short_history_client, task_queue, tmp_path, memory)


def _own(step_id: str, name: str, queue: str, **more: Any) -> dict[str, Any]:
    run = {"activity": {"name": name, "queue": f"{queue}-own"}}
    return {"id": step_id, "run": run, "retry": {"attempts": 1}, **more}


async def test_a_long_phase_continues_as_new_in_the_middle(short_histories: Harness) -> None:
    ids = [f"s{number}" for number in range(24)]
    handle = await short_histories.start(
        one_phase(*(_own(name, "pass", short_histories.queue) for name in ids)), "middle", memory="off"
    )
    result = await short_histories.ended(handle)
    first = await short_histories.client.get_workflow_handle(
        "middle", run_id=handle.first_execution_run_id
    ).fetch_history()

    assert (result["end"], result["run"]) == ("succeeded", handle.first_execution_run_id)
    assert sorted(s["step"] for s in result["steps"]) == sorted(ids)
    started = [e for e in first.events if e.HasField("start_child_workflow_execution_initiated_event_attributes")]
    assert len(started) < len(ids)


async def test_an_extension_outlives_a_continue_as_new(short_histories: Harness) -> None:
    phases = [
        {"id": phase, "steps": [_own(f"{phase}-{number}", "pass", short_histories.queue) for number in range(10)]}
        for phase in ("T0", "T1")
    ]
    definition = {"name": "checks", "scope": "acme/api", "budget": {"attempts": 12}, "phases": phases}
    handle = await short_histories.start(definition, "extended", memory="off")
    await handle.execute_update("extend_budget", {"attempts": 8}, rpc_timeout=timedelta(seconds=20))

    result = await short_histories.ended(handle)
    runs = [run async for run in short_histories.client.list_workflows("WorkflowId = 'extended'")]

    assert (result["end"], result["attempts"]) == ("succeeded", 20)
    assert len(runs) > 1


async def test_every_execution_of_a_schedule_is_a_run_of_its_own(harness: Harness) -> None:
    handle = await harness.client.start_workflow(
        "HarnessRun",
        {"definition": one_phase(step("build", "true")), "workspace": str(harness.workspace)},
        id=f"cron-{uuid.uuid4().hex[:8]}",
        task_queue=harness.queue,
        cron_schedule="@every 1s",
    )

    def ended() -> list[dict[str, Any]]:
        return [m for m in harness.memory.of("DocumentDecision") if m["kind"] == "run_final"]

    async with asyncio.timeout(30):
        while len(ended()) < 2:  # noqa: ASYNC110  because what memory was told has no event to wait for
            await asyncio.sleep(0.05)
    await harness.client.get_workflow_handle(handle.id).terminate()

    assert len({message["run"] for message in ended()}) == len(ended())


async def test_tokens_that_a_step_hears_of_in_its_first_task_bind_it(harness: Harness) -> None:
    @activity.defn(name="spend")
    async def spend(_work: dict[str, Any]) -> dict[str, Any]:
        return {"passed": False, "reason": "no", "tokens": 10}

    retry = {"attempts": 3, "first_delay": "0s"}
    body = {**_own("build", "spend", harness.queue), "retry": retry}
    async with Worker(harness.client, task_queue=f"{harness.queue}-own", activities=[spend]):
        handle = await harness.client.start_workflow(
            "HarnessStep",
            {"scope": "acme/api", "step": body},
            id=f"tokens-{harness.queue}",
            task_queue=harness.queue,
            start_signal="tokens_left",
            start_signal_args=[{"step": "build", "tokens": 5}],
        )
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()

    assert "the run's budget of tokens is spent: 10 used by this step" in str(failed.value.cause)


async def test_the_tokens_of_a_gate_count(harness: Harness) -> None:
    @activity.defn(name="spend")
    async def spend(_work: dict[str, Any]) -> dict[str, Any]:
        return {"passed": True, "tokens": 7}

    gate = {"activity": {"name": "spend", "queue": f"{harness.queue}-own"}}
    async with Worker(harness.client, task_queue=f"{harness.queue}-own", activities=[spend]):
        result = await harness.run(one_phase(step("build", "true"), gate=gate))

    assert (result["end"], result["tokens"]) == ("succeeded", 7)


@pytest.mark.parametrize("body", [{"command": ["true"]}, {"activity": {"name": "nobody", "queue": "nobody"}}])
async def test_a_time_budget_bounds_the_wait_in_a_queue_that_nobody_polls(
    harness: Harness, body: dict[str, Any]
) -> None:
    message = {
        "scope": "acme/api",
        "step": {"id": "build", "run": body, "budget": {"time": "1s"}},
        "executor_queue": "nobody",
    }
    handle = await harness.client.start_workflow(
        "HarnessStep", message, id=f"late-{harness.queue}", task_queue=harness.queue
    )
    with pytest.raises(WorkflowFailureError) as failed:
        async with asyncio.timeout(20):
            await handle.result()

    assert str(failed.value.cause).endswith("the step's time budget is spent")


async def test_an_answer_that_is_no_json_fails_its_step_once(harness: Harness) -> None:
    calls: list[str] = []

    @activity.defn(name="bytes")
    async def in_bytes(work: dict[str, Any]) -> bytes:
        calls.append(work["step"])
        return b"\xff"

    body = {**_own("build", "bytes", harness.queue), "retry": {"attempts": 3, "first_delay": "0s"}}
    async with Worker(harness.client, task_queue=f"{harness.queue}-own", activities=[in_bytes]):
        result = await harness.run(one_phase(body))

    assert (result["end"], calls) == ("failed", ["build"])
    assert "the activity's answer cannot be read: its encoding is binary/plain" in result["reason"]
