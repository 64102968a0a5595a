"""Steps side by side that fail, and the ways back they ask for."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from temporalio import activity
from temporalio.worker import Worker

from tests.workflows.conftest import Harness, one_phase


@contextlib.asynccontextmanager
async def _activities(harness: Harness) -> AsyncIterator[None]:
    tries: dict[str, int] = {}

    @activity.defn(name="pass")
    async def succeed(_work: dict[str, Any]) -> None:
        return None

    @activity.defn(name="fail")
    async def fail(_work: dict[str, Any]) -> dict[str, Any]:
        return {"passed": False, "reason": "no"}

    @activity.defn(name="fail_once")
    async def fail_once(work: dict[str, Any]) -> dict[str, Any]:
        tries[work["step"]] = tries.get(work["step"], 0) + 1
        return {"passed": tries[work["step"]] > 1, "reason": "not yet"}

    async with Worker(harness.client, task_queue=f"{harness.queue}-own", activities=[succeed, fail, fail_once]):
        yield


def _own(harness: Harness, step_id: str, name: str, **more: Any) -> dict[str, Any]:
    run = {"activity": {"name": name, "queue": f"{harness.queue}-own"}}
    return {"id": step_id, "run": run, "retry": {"attempts": 1}, **more}


def _side_by_side(harness: Harness, first: str, second: str) -> dict[str, Any]:
    return one_phase(
        _own(harness, "x", "pass"),
        _own(harness, "y", "pass"),
        _own(harness, "a", first, needs=["x"], on_failure={"go_to": "x", "at_most": 1}),
        _own(harness, "b", second, needs=["y"], on_failure={"go_to": "y", "at_most": 1}),
    )


async def test_two_steps_that_fail_together_both_go_back(harness: Harness) -> None:
    async with _activities(harness):
        result = await harness.run(_side_by_side(harness, "fail_once", "fail_once"))

    ends = {(s["step"], s["visit"]): s["end"] for s in result["steps"]}
    assert result["end"] == "succeeded"
    assert (ends["a", 1], ends["b", 1], ends["a", 2], ends["b", 2]) == ("failed", "failed", "succeeded", "succeeded")


async def test_a_run_fails_when_any_of_its_ways_back_is_used_up(harness: Harness) -> None:
    async with _activities(harness):
        result = await harness.run(_side_by_side(harness, "fail_once", "fail"))

    assert result["end"] == "failed"
    assert result["reason"].startswith("Step b: ")
    assert result["reason"].endswith("it went back to y 1 time already")
