"""What ends a part that cannot end itself: an executor that is lost in a claim, a step whose code never runs."""

import asyncio
import contextlib
import uuid
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tests.workflows.conftest import RUNNER, Harness, StandInMemory, one_phase, step
from workflows import executor_calls
from workflows.deliver_records import DeliverRecords
from workflows.harness_run import HarnessRun
from workflows.harness_step import HarnessStep


@workflow.defn(name="HarnessStep", sandboxed=False)  # because a test module is not importable inside the sandbox
class Stuck:
    """A step that never comes to its end."""

    @workflow.run
    async def run(self, _raw: RawValue) -> None:
        await workflow.wait_condition(lambda: False)


async def _ended(client: Client, queue: str, definition: dict[str, Any], *workflows: type, **served: Any) -> Any:
    """Run a definition; return the run's result whatever its end."""
    worker = Worker(
        client, task_queue=queue, workflows=[HarnessRun, DeliverRecords, *workflows], workflow_runner=RUNNER, **served
    )
    async with worker:
        handle = await client.start_workflow(
            "HarnessRun", {"definition": definition}, id=f"bound-{uuid.uuid4()}", task_queue=queue, result_type=dict
        )
        try:
            async with asyncio.timeout(20):
                return await handle.result()
        except WorkflowFailureError as error:
            assert isinstance(error.cause, ApplicationError)  # noqa: PT017  because any other end is a failed test
            return error.cause.details[0]


async def test_a_claim_whose_executor_is_lost_is_asked_for_again_within_its_minute(
    temporal_client: Client, task_queue: str, memory: StandInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    @activity.defn(name="ClaimExecutor")
    async def claim(_request: dict[str, Any]) -> None:
        tries.append(activity.info().attempt)
        if len(tries) == 1:
            await asyncio.Event().wait()
        raise ApplicationError("no workspace", non_retryable=True)

    monkeypatch.setattr(executor_calls, "CLAIM_HEARTBEAT", timedelta(seconds=0.5))
    async with Worker(temporal_client, task_queue=f"{task_queue}-executors", activities=[claim]):
        result = await _ended(
            temporal_client, task_queue, one_phase(step("build", "true")), HarnessStep, activities=memory.all()
        )

    assert (tries, result["reason"]) == ([1, 2], "no executor for the run: no workspace")


async def test_work_that_nobody_takes_says_where_it_waits_and_ends_when_its_wait_is_over(harness: Harness) -> None:
    call = {"name": "nobody", "queue": "nobody-polls", "start_within": "1s"}
    body = {"id": "build", "run": {"activity": call}, "retry": {"attempts": 1}}

    handle = await harness.start(one_phase(body))
    page = await _page(harness.client.get_workflow_handle(f"{handle.id}/build"), "waiting")
    result = await harness.ended(handle)

    assert "attempt 1 of 1, running, or waiting for a worker on queue nobody-polls (at most 1 s)" in page
    record = harness.memory.of("AnalyzeError")[0]
    assert record["error"] == "no worker took the activity from queue nobody-polls in time"
    assert (record["source"], result["attempts"]) == ("executor", 1)


async def _page(handle: WorkflowHandle[Any, Any], word: str) -> str:
    """Wait until a step's page has a word."""
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(RPCError):
                page = str(await handle.query("details"))
                if word in page:
                    return page
            await asyncio.sleep(0.02)


async def test_a_step_that_cannot_end_itself_is_ended_an_hour_past_its_deadline(
    time_skipping: WorkflowEnvironment, task_queue: str, memory: StandInMemory
) -> None:
    body = {"id": "build", "run": {"activity": {"name": "nobody"}}}
    definition = one_phase(body, budget={"time": "10m"})

    result = await _ended(time_skipping.client, task_queue, definition, Stuck, activities=memory.all())

    assert result["steps"][0]["end"] == "interrupted"
    assert "ended without a result" in result["reason"]
    allowed = timedelta(hours=1, minutes=10).total_seconds()
    assert allowed <= result["seconds"] < allowed + 60
