"""What the demonstration promises; each part of it can fail."""

import pytest

from poimen.builder import Harness, command
from poimen.contracts.run_io import StepResult
from tests.demo.conftest import demo_run, prevented, step
from worker.demo.promise import not_held

PREVENTED = prevented("mend", "known")
STOPPED = step(1, "stopped", reason="16 retries, nothing helped")
FAILED = step(9, "failed")

DEFINITION = (
    Harness("demo", scope="demo")
    .phase("T0")
    .step("cured", run=command("x"), repairs=[{"id": "mend", "command": ["y"], "before": True}])
    .step("waited", run=command("x"))
    .step("lost", run=command("x"))
    .build()
)


def _broken(helped: dict[str, StepResult], control: dict[str, StepResult] | None = None) -> list[str]:
    bad = {"cured": step(3), "waited": step(4), "lost": FAILED}
    good = {"cured": PREVENTED, "waited": step(2), "lost": STOPPED}
    runs = [demo_run("observe", **bad), demo_run("on-1", **(good | helped)), demo_run("off", **(bad | (control or {})))]
    return not_held(DEFINITION, runs)


def test_nothing_is_broken_when_memory_helped_everywhere_and_the_control_is_as_bad() -> None:
    assert _broken({}) == []


@pytest.mark.parametrize(
    ("name", "helped"),
    [
        ("cured", step(2)),
        ("cured", step(3)),
        ("cured", step(1, "failed")),
        ("waited", step(4)),
        ("lost", FAILED),
        ("lost", step(1, "failed")),
        ("lost", step(1, "stopped", reason="")),
    ],
)
def test_a_step_that_was_not_helped_is_named(name: str, helped: StepResult) -> None:
    assert any(name in sentence for sentence in _broken({name: helped}))


@pytest.mark.parametrize(
    ("name", "control"), [("cured", step(2)), ("cured", PREVENTED), ("waited", step(2)), ("lost", STOPPED)]
)
def test_a_control_run_that_is_better_than_the_first_breaks_the_promise(name: str, control: StepResult) -> None:
    [sentence] = _broken({}, {name: control})

    assert name in sentence
    assert "the control should be as bad" in sentence


def test_how_often_one_asks_in_vain_while_waiting_may_differ() -> None:
    assert _broken({}, {"waited": step(3)}) == []


def test_a_run_that_stopped_half_way_breaks_the_promise() -> None:
    runs = [demo_run(name, cured=step(3)) for name in ("observe", "on-1", "off")]

    assert "on-1 did not come to waited." in not_held(DEFINITION, runs)


def test_without_a_run_that_listened_nothing_was_shown() -> None:
    assert not_held(DEFINITION, [demo_run("observe"), demo_run("off")]) == ["No run listened to memory."]
