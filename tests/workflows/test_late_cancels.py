"""A cancel in the middle of a record loses no record; the cancel of a part is not the cancel of the whole."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError
from temporalio.worker import Worker

from tests.workflows.conftest import Harness, StandInMemory, appears, one_phase, step, workers


class SlowMemory(StandInMemory):
    """Memory that hangs once at one kind of decision, so that the call is lost, and says when it does."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.hangs = kind, asyncio.Event()
        self.delivered = asyncio.Event()

    def all(self) -> list[Callable[..., Any]]:
        """Return the activities to register."""

        @activity.defn(name="DocumentDecision")
        async def document(message: dict[str, Any]) -> dict[str, Any]:
            if message["kind"] == self.kind and not self.hangs.is_set():
                self.hangs.set()
                await asyncio.Event().wait()
            self.calls.append(("DocumentDecision", message))
            if message["kind"] == self.kind:
                self.delivered.set()
            return {"decision_id": "d"}

        named = [self._stand_in(name) for name in ("GetContext", "AnalyzeError", "LearnFromExecution")]
        return [*named, document]


@contextlib.asynccontextmanager
async def _slow(harness: Harness, kind: str) -> AsyncIterator[tuple[SlowMemory, Harness]]:
    memory, queue = SlowMemory(kind), f"{harness.queue}-slow"
    async with workers(harness.client, queue, memory, harness.workspace):
        yield memory, Harness(harness.client, queue, harness.workspace, memory)


async def _kept(memory: SlowMemory) -> list[str]:
    """Wait until the record that hung is delivered; return the kinds on record."""
    async with asyncio.timeout(30):
        await memory.delivered.wait()
    return [message["kind"] for message in memory.of("DocumentDecision")]


async def _cancelled(handle: WorkflowHandle[Any, Any]) -> None:
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, CancelledError)


async def test_a_cancel_while_the_end_is_written_comes_too_late_and_loses_nothing(harness: Harness) -> None:
    async with _slow(harness, "run_final") as (memory, slow):
        handle = await slow.start(one_phase(step("build", "true")))
        await memory.hangs.wait()
        await handle.cancel()
        result = await slow.ended(handle)
        kinds = await _kept(memory)

    assert (result["end"], result["undelivered_records"]) == ("succeeded", 1)
    assert kinds.count("run_final") == 1


@pytest.mark.parametrize("kind", ["gate", "phase_milestone"])
async def test_a_cancel_while_a_run_writes_a_record_loses_none(harness: Harness, kind: str) -> None:
    async with _slow(harness, kind) as (memory, slow):
        handle = await slow.start(one_phase(step("build", "true"), gate={"command": ["true"]}))
        await memory.hangs.wait()
        await handle.cancel()
        await _cancelled(handle)
        kinds = await _kept(memory)
        async with asyncio.timeout(30):
            while "run_final" not in kinds:
                await asyncio.sleep(0.05)
                kinds = [message["kind"] for message in memory.of("DocumentDecision")]

    assert (kinds.count(kind), kinds.count("run_final")) == (1, 1)


async def test_a_step_that_a_person_cancels_fails_its_run_and_has_spent_an_attempt(harness: Harness) -> None:
    started = harness.workspace / "started"
    handle = await harness.start(one_phase(step("build", f"touch {started}; exec sleep 60")))
    await appears(started)
    await harness.client.get_workflow_handle(f"{handle.id}/build").cancel()
    result = await harness.ended(handle)

    assert (result["end"], result["attempts"]) == ("failed", 1)
    assert result["reason"] == "Step build: the step was cancelled"


async def test_a_step_that_a_person_terminates_has_spent_an_attempt(harness: Harness) -> None:
    started = asyncio.Event()

    @activity.defn(name="hang")
    async def hang(_work: dict[str, Any]) -> None:
        started.set()
        await asyncio.Event().wait()

    body = {"id": "build", "run": {"activity": {"name": "hang", "queue": f"{harness.queue}-own"}}}
    async with Worker(harness.client, task_queue=f"{harness.queue}-own", activities=[hang]):
        handle = await harness.start(one_phase(body), f"ended-{uuid.uuid4().hex[:8]}")
        await started.wait()
        await harness.client.get_workflow_handle(f"{handle.id}/build").terminate()
        result = await harness.ended(handle)

    assert (result["end"], result["attempts"]) == ("failed", 1)
