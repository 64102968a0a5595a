"""What a run does over time, and when its workflows are never kept in the worker's cache."""

import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tests.workflows.conftest import Harness, StandInMemory, analysis, one_phase, step, workers


@pytest_asyncio.fixture(loop_scope="session")
async def skipping(
    time_skipping: WorkflowEnvironment, task_queue: str, memory: StandInMemory, tmp_path: Path
) -> AsyncIterator[Harness]:
    """A harness whose timers pass at once."""

    @activity.defn(name="fail")
    async def fail(_work: dict[str, Any]) -> None:
        raise ApplicationError("it failed")

    # An activity of the test's own: a command beats its heart in real time, which this server skips over.
    own = Worker(time_skipping.client, task_queue=f"{task_queue}-own", activities=[fail])
    async with own, workers(time_skipping.client, task_queue, memory, tmp_path):
        yield Harness(time_skipping.client, task_queue, tmp_path, memory)


def _failing(harness: Harness, retry: dict[str, Any]) -> dict[str, Any]:
    run = {"activity": {"name": "fail", "queue": f"{harness.queue}-own"}}
    return {"id": "build", "run": run, "retry": retry}


def _lost(_message: dict[str, Any]) -> Any:
    raise ConnectionError


async def test_memory_is_probed_again_thirty_seconds_after_a_loss(skipping: Harness) -> None:
    memory = skipping.memory
    memory.answers["GetContext"] = _lost
    retry = {"attempts": 5, "first_delay": "16s", "factor": 1, "longest_delay": "16s"}

    await skipping.run(one_phase(_failing(skipping, retry)))

    # Lost at 0 s, silent at 16 s, probed and lost at 32 s, silent at 48 s, probed at 64 s.
    assert [message["attempt"] for message in memory.of("GetContext")] == [1, 3, 5]


async def test_memory_is_used_again_once_a_probe_is_answered(skipping: Harness) -> None:
    memory = skipping.memory
    answers = iter([_lost, lambda message: {"package_id": "ctx-2", "created_at": "2026-11-29T16:50:09Z"}])
    memory.answers["GetContext"] = lambda message: next(answers)(message)  # noqa: PLW0108  because each call takes one
    retry = {"attempts": 2, "first_delay": "40s", "longest_delay": "40s"}

    await skipping.run(one_phase(_failing(skipping, retry)))

    assert [message["attempt"] for message in memory.of("AnalyzeError")] == [2, 1]


async def test_records_are_tried_again_for_a_day(harness: Harness) -> None:
    memory = harness.memory
    for name in ("GetContext", "LearnFromExecution", "DocumentDecision"):
        memory.answers[name] = _lost
    handle = await harness.start(one_phase(step("build", "true")), f"lost-{uuid.uuid4().hex[:8]}")
    result = await harness.ended(handle)
    memory.answers.clear()

    delivery = harness.client.get_workflow_handle(f"{handle.id}/records/{result['run']}/1", result_type=dict)
    told = await delivery.result()
    lifetime = (await delivery.describe()).raw_description.execution_config.workflow_execution_timeout
    history = await delivery.fetch_history()
    scheduled = [event for event in history.events if event.HasField("activity_task_scheduled_event_attributes")]
    bounds = [
        event.activity_task_scheduled_event_attributes.schedule_to_close_timeout.ToTimedelta() for event in scheduled
    ]

    assert told == {"delivered": 2, "refused": []}
    assert all(timedelta(hours=23) < bound <= timedelta(hours=24) for bound in bounds)
    # What the server gives it in all leaves it time to say what it could not deliver.
    assert lifetime.ToTimedelta() == timedelta(hours=25)


async def test_a_record_that_memory_refuses_for_good_is_named_and_passed_over(harness: Harness) -> None:
    memory = harness.memory

    def refuse(_message: dict[str, Any]) -> Any:
        raise ApplicationError("another request had this key", type="Conflict", non_retryable=True)

    memory.answers["LearnFromExecution"] = refuse
    record = {"scope": "acme/api", "outcome": "succeeded"}
    decision = {"scope": "acme/api", "kind": "gate", "decision": "passed"}
    records = [
        {"activity": "LearnFromExecution", "message": record},
        {"activity": "DocumentDecision", "message": decision},
    ]

    told = await harness.client.execute_workflow(
        "DeliverRecords",
        {"records": records, "queue": harness.queue},
        id=f"deliver-{uuid.uuid4().hex[:8]}",
        task_queue=harness.queue,
        result_type=dict,
    )

    assert told == {"delivered": 1, "refused": ["Conflict: another request had this key"]}


async def test_an_advised_wait_never_passes_the_longest_delay_of_the_step(skipping: Harness) -> None:
    skipping.memory.answers["AnalyzeError"] = lambda message: analysis(message, "retry_after", delay_seconds=86_400.0)
    retry = {"attempts": 2, "first_delay": "1s", "longest_delay": "5s"}

    result = await skipping.run(one_phase(_failing(skipping, retry)))

    assert result["seconds"] < timedelta(minutes=1).total_seconds()


@pytest.mark.parametrize("memory_mode", ["on", "off"])
async def test_a_run_is_the_same_when_no_workflow_is_cached(
    temporal_client: Client, task_queue: str, memory: StandInMemory, tmp_path: Path, memory_mode: str
) -> None:
    count = tmp_path / "count"
    plan = step("plan", f"echo x >> {count}")
    build = step("build", f"test $(wc -l < {count}) -ge 2", needs=["plan"], on_failure={"go_to": "plan", "at_most": 1})
    build["retry"]["attempts"] = 2
    async with workers(temporal_client, task_queue, memory, tmp_path, max_cached_workflows=0):
        harness = Harness(temporal_client, task_queue, tmp_path, memory)
        result = await harness.run(one_phase(plan, build, gate={"command": ["true"]}), memory=memory_mode)

    assert [(s["step"], s["visit"], s["attempts"]) for s in result["steps"]] == [
        ("plan", 1, 1),
        ("build", 1, 2),
        ("plan", 2, 1),
        ("build", 2, 1),
    ]
