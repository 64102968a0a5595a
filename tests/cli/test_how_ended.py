"""Ends that are read from histories which are incomplete, or spread over several executions."""

import uuid
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from poimen.contracts.run_io import HarnessRunResult, StepSummary
from worker.cli.how_ended import how_ended, is_reset, with_first_causes

LIMIT = timedelta(seconds=10)


@workflow.defn(name="HarnessRun")
class TwoExecutions:
    """Has a step in each of two executions, and ends without a result that anybody knows."""

    @workflow.run
    async def run(self, begun: int) -> None:
        await workflow.execute_child_workflow("HarnessStep", id=f"{workflow.info().workflow_id}/{begun}")
        if begun == 0:
            workflow.continue_as_new(1)


@workflow.defn(name="HarnessStep")
class Attempted:
    """Schedules what a step schedules that is cut off before its third attempt."""

    @workflow.run
    async def run(self) -> None:
        for word, attempt in (("recall", 1), ("run", 1), ("verify", 1), ("recall", 2), ("run", 2), ("recall", 3)):
            await workflow.execute_activity("note", start_to_close_timeout=LIMIT, summary=f"{word} · attempt {attempt}")


@activity.defn
async def note() -> None:
    return


async def test_the_attempts_of_all_executions_of_a_run_are_counted_and_only_those_that_began(
    temporal_client: Client, task_queue: str
) -> None:
    name = f"continued-{uuid.uuid4().hex[:8]}"
    async with Worker(
        temporal_client,
        task_queue=task_queue,
        workflows=[TwoExecutions, Attempted],
        activities=[note],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        first = await temporal_client.start_workflow("HarnessRun", 0, id=name, task_queue=task_queue)
        await first.result()
    latest = await temporal_client.get_workflow_handle(name).describe()
    assert latest.run_id != first.first_execution_run_id
    assert (await how_ended(temporal_client, latest)).attempts == 4


def result(*steps: dict[str, Any]) -> HarnessRunResult:
    known = {
        "phase": "T0",
        "visit": 1,
        "end": "interrupted",
        "attempts": 1,
        "seconds": 0,
        "reason": "it was terminated",
    }
    return HarnessRunResult(
        run="r",
        end="failed",
        reason="Step slow: ended",
        definition_hash="wd1:0",
        steps=tuple(StepSummary(**known, **step) for step in steps),
        attempts=1,
        tokens=0,
        seconds=1,
        memory="on",
    )


async def test_a_step_whose_history_was_deleted_loses_no_result_of_its_run(
    temporal_client: Client, task_queue: str
) -> None:
    there = await temporal_client.start_workflow("HarnessStep", id=f"{task_queue}/there", task_queue=task_queue)
    await there.terminate(reason="disk is full")
    steps = ({"step": "gone", "workflow_id": f"{task_queue}/gone"}, {"step": "there", "workflow_id": there.id})
    told = await with_first_causes(temporal_client, result(*steps))
    assert told.reason == "Step slow: ended (there: disk is full)"


async def test_an_execution_whose_history_was_deleted_is_told_by_what_is_known(
    temporal_client: Client, task_queue: str
) -> None:
    handle = await temporal_client.start_workflow("HarnessRun", 0, id=f"{task_queue}/deleted", task_queue=task_queue)
    await handle.terminate()
    found = await handle.describe()
    found.id = f"{task_queue}/nobody"
    ended = await how_ended(temporal_client, found)
    assert (ended.end, ended.reason, ended.attempts) == ("terminated", "", 0)
    assert not await is_reset(temporal_client, found)
