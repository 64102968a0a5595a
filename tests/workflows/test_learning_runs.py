"""Runs that learn from one another: real memory over real Postgres."""

import uuid
from typing import Any

from tests.workflows.conftest import Harness, one_phase, step


def _cured_by(harness: Harness, *repairs: str, cure: str, before: bool = True) -> dict[str, Any]:
    """A step that fails with one error until its cure has run; the cure's mark is removed before every run."""
    mark = harness.workspace / cure
    declared = [
        {"id": repair, "command": ["touch", str(harness.workspace / repair)], "before": before} for repair in repairs
    ]
    retry = {"attempts": 5, "first_delay": "0s", "longest_delay": "0s"}
    script = f"test -e {mark} || {{ echo 'OSError: [Errno 98] Address already in use'; exit 1; }}"
    return step("serve", script, repairs=declared, retry=retry)


async def _run(harness: Harness, body: dict[str, Any], **options: Any) -> dict[str, Any]:
    for repair in body["repairs"]:
        (harness.workspace / repair["id"]).unlink(missing_ok=True)
    result = await harness.run(one_phase(body), workflow_id=f"run-{uuid.uuid4().hex[:8]}", **options)
    return dict(result["steps"][0])


async def test_the_second_run_repairs_first_and_the_third_prevents(remembering: Harness) -> None:
    body = _cured_by(remembering, "clear-cache", "restart", "free-port", cure="free-port")

    attempts = [(await _run(remembering, body))["attempts"] for _ in range(3)]

    assert attempts[1:] == [2, 1]
    assert attempts[0] > 2


async def test_an_observed_run_teaches_the_next_one(remembering: Harness) -> None:
    body = _cured_by(remembering, "clear-cache", "restart", "free-port", cure="free-port")

    observed = await _run(remembering, body, memory="observe")
    learned = await _run(remembering, body)

    assert (observed["attempts"], learned["attempts"]) == (4, 2)


async def test_prevention_ends_when_the_repair_stops_working(remembering: Harness) -> None:
    body = _cured_by(remembering, "restart", "free-port", cure="free-port")
    for _ in range(3):
        await _run(remembering, body)
    mark = remembering.workspace / "free-port"
    body["repairs"][1]["command"] = ["true"]

    prevented = [(await _run(remembering, body, memory="on"))["prevented_by"] for _ in range(4)]

    assert not mark.exists()
    assert prevented[0] == "free-port"
    assert prevented[-1] is None


async def test_a_failure_nothing_helps_is_stopped_early_in_the_third_run(remembering: Harness) -> None:
    retry = {"attempts": 9, "first_delay": "0s", "longest_delay": "0s"}
    body = step("sign", "echo 'ValueError: no key'; exit 1", retry=retry, repairs=[])

    ends = [(await _run(remembering, body)) for _ in range(3)]

    assert [end["attempts"] for end in ends] == [9, 9, 1]
    assert (ends[2]["end"], ends[2]["reason"]) == ("stopped", "stopped: 16 retries in 2 runs, nothing helped")


async def test_without_memory_a_run_is_as_bad_as_the_first(remembering: Harness) -> None:
    body = _cured_by(remembering, "clear-cache", "restart", "free-port", cure="free-port")
    first = await _run(remembering, body, memory="observe")
    for _ in range(2):
        await _run(remembering, body)

    control = await _run(remembering, body, memory="off")

    assert control["attempts"] == first["attempts"] == 4
