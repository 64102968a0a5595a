"""Budgets of attempts, tokens and time, at the run and at the step."""

import asyncio
import contextlib
import json
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import WorkflowHandle
from temporalio.service import RPCError
from temporalio.worker import Worker

from tests.workflows.conftest import Harness, one_phase, step


def _tokens(number: int, then: str = "exit 1") -> str:
    report = json.dumps({"tokens": number})
    return f"echo '{report}' > $POIMEN_RESULT; {then}"


async def test_a_step_stops_when_its_own_attempts_are_spent(harness: Harness) -> None:
    result = await harness.run(one_phase(step("build", "exit 1", budget={"attempts": 2})))

    assert result["steps"][0]["end"] == "exhausted"
    assert result["reason"] == "Step build: the step's budget of attempts is spent"
    assert result["attempts"] == 2


async def test_a_run_stops_when_its_attempts_are_spent(harness: Harness) -> None:
    first = step("first", "exit 1", on_failure="skip")
    second = step("second", "exit 1", needs=["first"])

    result = await harness.run(one_phase(first, second, budget={"attempts": 5}))

    assert result["end"] == "exhausted"
    assert result["attempts"] == 5
    assert result["reason"].startswith("the run's budget of 5 attempts is spent")


async def test_steps_side_by_side_never_spend_more_attempts_than_the_run_has(harness: Harness) -> None:
    steps = [step(f"s{number}", "exit 1", on_failure="skip") for number in range(4)]

    result = await harness.run(one_phase(*steps, budget={"attempts": 7}))

    assert result["attempts"] == 7
    assert result["end"] == "exhausted"


async def test_a_step_that_waits_for_attempts_gets_what_another_gave_back(harness: Harness) -> None:
    steps = [step(f"s{number}", "true") for number in range(4)]

    result = await harness.run(one_phase(*steps, budget={"attempts": 4}))

    assert result["end"] == "succeeded"


async def test_a_run_stops_when_its_tokens_are_spent(harness: Harness) -> None:
    result = await harness.run(one_phase(step("plan", _tokens(60)), budget={"tokens": 100}))

    assert result["end"] == "exhausted"
    assert result["tokens"] == 120
    assert result["reason"].startswith("the run's budget of 100 tokens is spent")


async def test_steps_side_by_side_share_the_tokens_of_the_run(harness: Harness) -> None:
    # Each spends what is fine by itself; the second ends its attempt once it has heard of the first one's spending.
    go_on = harness.workspace / "go-on"
    large = step("large", _tokens(95), retry={"attempts": 1}, on_failure="skip")
    small = step("small", f"while [ ! -e {go_on} ]; do sleep 0.05; done; {_tokens(10)}")

    handle = await harness.start(one_phase(large, small, budget={"tokens": 100}))
    await _hears(harness.client.get_workflow_handle(f"{handle.id}/small"))
    go_on.touch()
    result = await harness.ended(handle)

    assert result["end"] == "exhausted"
    assert {s["step"]: s["attempts"] for s in result["steps"]} == {"large": 1, "small": 1}


async def _hears(step: WorkflowHandle[Any, Any]) -> None:
    """Wait until a step was told what is left of the tokens."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(RPCError):
                events = [event async for event in step.fetch_history_events()]
                if any(event.HasField("workflow_execution_signaled_event_attributes") for event in events):
                    return
            await asyncio.sleep(0.05)


async def test_a_run_stops_when_its_time_is_spent(harness: Harness) -> None:
    result = await harness.run(one_phase(step("wait", "sleep 30"), budget={"time": "1s"}))

    assert result["end"] == "exhausted"
    assert "time budget" in result["reason"]


async def test_a_step_does_not_wait_for_an_attempt_that_its_time_does_not_allow(harness: Harness) -> None:
    retry = {"attempts": 3, "first_delay": "30s", "longest_delay": "30s"}

    result = await harness.run(one_phase(step("wait", "exit 1", budget={"time": "10s"}, retry=retry)))

    assert result["steps"][0]["reason"] == "the step's time budget ends before the next attempt"
    assert result["attempts"] == 1


async def test_an_operator_extends_the_budget_of_a_running_run(harness: Harness) -> None:
    go_on = harness.workspace / "go-on"
    first = step("first", f"while [ ! -e {go_on} ]; do sleep 0.05; done")
    second = step("second", "true", needs=["first"])
    handle = await harness.start(one_phase(first, second, budget={"attempts": 1}))

    left = await handle.execute_update(
        "extend_budget", {"attempts": 1}, result_type=dict, rpc_timeout=timedelta(seconds=20)
    )
    go_on.touch()
    result = await handle.result()

    assert left["attempts"] == 2
    assert result["end"] == "succeeded"


@pytest.mark.parametrize("said_no", [(), ("step", "verify"), ("verify",), ("judge",)])
async def test_every_part_of_an_attempt_counts_its_tokens_whichever_said_no(
    harness: Harness, said_no: tuple[str, ...]
) -> None:
    @activity.defn(name="spend")
    async def spend(work: dict[str, Any]) -> dict[str, Any]:
        return {"passed": work["purpose"] not in said_no, "tokens": 1_000}

    part = {"activity": {"name": "spend", "queue": f"{harness.queue}-own"}}
    body = {"id": "plan", "run": part, "verify": part, "judge": part, "retry": {"attempts": 1}}

    async with Worker(harness.client, task_queue=f"{harness.queue}-own", activities=[spend]):
        result = await harness.run(one_phase(body))

    assert result["tokens"] == (2_000 if "verify" in said_no else 3_000)
