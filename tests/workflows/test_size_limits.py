"""What a server would refuse for ever, or end without a word, is refused or ended with a sentence."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RawValue
from temporalio.worker import Worker

from tests.workflows.conftest import RUNNER, Harness, StandInMemory, one_phase, step
from workflows.deliver_records import DeliverRecords
from workflows.harness_step import HarnessStep

# Two bytes a letter as it is typed, six as it is sent on.
LETTERS = "\u0436" * 30_000


async def _refusal(harness: Harness, workflow: str, message: dict[str, Any]) -> str:
    # As a person's shell sends it: UTF-8.
    text = json.dumps(message, ensure_ascii=False).encode()
    raw = RawValue(Payload(metadata={"encoding": b"json/plain"}, data=text))
    with pytest.raises(WorkflowFailureError) as failed:
        await harness.client.execute_workflow(
            workflow, raw, id=f"large-{uuid.uuid4().hex[:8]}", task_queue=harness.queue
        )
    return str(failed.value.cause)


async def test_a_run_that_is_too_large_to_be_sent_on_is_refused(harness: Harness) -> None:
    steps = [{"id": f"s{number}", "run": {"command": ["echo", LETTERS]}} for number in range(8)]

    told = await _refusal(harness, "HarnessRun", {"definition": one_phase(*steps)})

    assert "The definition has 1,44" in told
    assert "at most 1,048,576" in told


@pytest.mark.parametrize(
    ("workflow", "message"),
    [
        ("HarnessStep", {"scope": "s", "step": step("build", "true"), "executor_queue": "/_sys/x"}),
        ("HarnessStep", {"scope": "s", "step": step("build", "true"), "executor_queue": "q" * 2_000}),
        ("DeliverRecords", {"records": [], "queue": "/_sys/x"}),
    ],
    ids=["a reserved queue", "a long queue", "a reserved queue for records"],
)
async def test_a_queue_that_no_server_takes_is_refused(
    harness: Harness, workflow: str, message: dict[str, Any]
) -> None:
    assert "queue" in await _refusal(harness, workflow, message)


async def test_a_run_in_a_scope_too_long_for_a_search_attribute_runs(harness: Harness) -> None:
    result = await harness.run({**one_phase(step("build", "true")), "scope": "\U0001f600" * 256})

    assert result["end"] == "succeeded"


async def test_a_step_ends_itself_before_its_history_is_full(
    temporal_client: Client, task_queue: str, memory: StandInMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @activity.defn(name="fail")
    async def fail(_work: dict[str, Any]) -> dict[str, Any]:
        return {"passed": False, "reason": "no"}

    monkeypatch.setattr("poimen.step_rules.MOST_EVENTS", 60)
    body = {
        "id": "build",
        "run": {"activity": {"name": "fail"}},
        "retry": {"attempts": 1_000, "first_delay": "0s", "longest_delay": "0s"},
    }
    async with Worker(
        temporal_client,
        task_queue=task_queue,
        workflows=[HarnessStep, DeliverRecords],
        activities=[*memory.all(), fail],
        workflow_runner=RUNNER,
    ):
        handle = await temporal_client.start_workflow(
            "HarnessStep", {"scope": "acme/api", "step": body}, id=f"full-{task_queue}", task_queue=task_queue
        )
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()
    result = failed.value.cause.details[0]  # type: ignore[attr-defined]  # because it is an ApplicationError, or the test fails

    assert result["end"] == "exhausted"
    assert result["reason"] == f"its history is full after {result['attempts_made']} attempts"
    assert [m["end"] for m in memory.of("DocumentDecision")] == ["exhausted"]
