"""Which steps may start, and what is due again after a way back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poimen.contracts.definition import GoTo, WorkflowDef
from workflows.run_plan import RunPlan, WayBack


def definition(*phases: dict[str, list[str]]) -> WorkflowDef:
    """Phases as {step: needs}."""
    bodies: list[dict[str, Any]] = [
        {
            "id": f"T{number}",
            "steps": [{"id": step, "run": {"command": ["true"]}, "needs": needs} for step, needs in steps.items()],
        }
        for number, steps in enumerate(phases)
    ]
    return WorkflowDef.model_validate({"name": "checks", "scope": "acme/api", "phases": bodies})


def plan(*phases: dict[str, list[str]]) -> RunPlan:
    return RunPlan(definition(*phases))


def ready(made: RunPlan, *running: str) -> list[str]:
    return [step.id for step in made.ready(set(running))]


def settle(made: RunPlan, *steps: str) -> None:
    made.done.update(dict.fromkeys(steps, "succeeded"))


def back(made: RunPlan, source: str, way: GoTo, failed: str | None) -> bool:
    """Go one way back; whether it was not used up."""
    return made.go_back([WayBack(source, way, failed)]) is None


DIAMOND = {"build": [], "test": ["build"], "lint": ["build"], "ship": ["test", "lint"]}


def test_steps_without_needs_are_ready_in_declared_order() -> None:
    assert ready(plan({"b": [], "a": [], "c": ["a"]})) == ["b", "a"]


def test_a_step_is_ready_when_all_its_needs_are_settled() -> None:
    made = plan(DIAMOND)
    settle(made, "build", "test")

    assert ready(made) == ["lint"]
    settle(made, "lint")
    assert ready(made) == ["ship"]


def test_a_running_or_settled_step_is_not_started_again() -> None:
    made = plan({"a": [], "b": []})
    settle(made, "a")

    assert ready(made, "b") == []


def test_a_skipped_need_is_settled() -> None:
    made = plan({"lint": [], "build": ["lint"]})
    made.done["lint"] = "failed"

    assert ready(made) == ["build"]


def test_steps_of_a_later_phase_wait_for_their_phase() -> None:
    made = plan({"a": []}, {"b": ["a"], "c": []})
    settle(made, "a")

    assert ready(made) == []
    made.phase = 1
    assert ready(made) == ["b", "c"]


def test_after_the_last_phase_nothing_is_ready() -> None:
    made = plan({"a": []})
    made.phase = 1

    assert made.current is None
    assert ready(made) == []


def test_visits_are_counted_a_step() -> None:
    made = plan({"a": [], "b": []})

    assert [made.visit("a"), made.visit("b"), made.visit("a")] == [1, 1, 2]


def test_going_back_makes_the_target_and_what_follows_it_due_again() -> None:
    made = plan({**DIAMOND, "docs": []})
    settle(made, "build", "test", "lint", "ship", "docs")

    assert back(made, "step:ship", GoTo(go_to="test", at_most=1), "ship")

    assert set(made.done) == {"build", "lint", "docs"}
    assert ready(made) == ["test"]


def test_going_back_makes_the_failed_step_due_again_even_if_it_does_not_need_the_target() -> None:
    made = plan({"build": [], "lint": [], "report": ["lint"]})
    settle(made, "build", "lint", "report")

    back(made, "step:lint", GoTo(go_to="build", at_most=1), "lint")

    assert made.done == {}


def test_going_back_to_an_earlier_phase_makes_all_phases_since_due_again() -> None:
    made = plan({"a": [], "a2": ["a"], "other": []}, {"b": []}, {"c": [], "d": []})
    settle(made, "a", "a2", "other", "b", "c", "d")
    made.phase = 2

    back(made, "step:d", GoTo(go_to="a", at_most=1), "d")

    assert made.phase == 0
    assert set(made.done) == {"other"}


def test_a_gate_goes_back_without_a_failed_step() -> None:
    made = plan({"a": [], "b": []})
    settle(made, "a", "b")

    back(made, "gate:T0", GoTo(go_to="a", at_most=1), None)

    assert set(made.done) == {"b"}


@pytest.mark.parametrize("at_most", [1, 2, 5])
def test_a_way_back_is_used_as_often_as_it_says(at_most: int) -> None:
    made = plan({"a": [], "b": ["a"]})
    way = GoTo(go_to="a", at_most=at_most)

    went = [back(made, "step:b", way, "b") for _ in range(at_most + 2)]

    assert went == [True] * at_most + [False] * 2


def test_every_way_back_has_a_count_of_its_own() -> None:
    made = plan({"a": [], "b": ["a"], "c": ["a"]})
    way = GoTo(go_to="a", at_most=1)

    assert back(made, "step:b", way, "b")
    assert back(made, "step:c", way, "c")
    assert not back(made, "step:b", way, "b")


def test_a_way_back_that_is_used_up_changes_nothing() -> None:
    made = plan({"a": [], "b": ["a"]})
    made.go_tos["step:b"] = 1
    settle(made, "a", "b")

    assert not back(made, "step:b", GoTo(go_to="a", at_most=1), "b")
    assert set(made.done) == {"a", "b"}


def test_ways_back_of_steps_side_by_side_are_all_gone_and_counted() -> None:
    made = plan({"x": [], "y": [], "a": ["x"], "b": ["y"], "other": []})
    settle(made, "x", "y", "a", "b", "other")
    ways = [
        WayBack("step:a", GoTo(go_to="x", at_most=1), "a"),
        WayBack("step:b", GoTo(go_to="y", at_most=1), "b"),
    ]

    assert made.go_back(ways) is None
    assert set(made.done) == {"other"}
    assert made.go_back(ways) == ways[0]


def test_one_way_back_that_is_used_up_stops_those_beside_it_too() -> None:
    made = plan({"x": [], "y": [], "a": ["x"], "b": ["y"]})
    settle(made, "x", "y", "a", "b")
    open_still, used_up = (
        WayBack("step:a", GoTo(go_to="x", at_most=2), "a"),
        WayBack("step:b", GoTo(go_to="y", at_most=1)),
    )
    made.go_back([used_up])
    settle(made, "y", "b")

    assert made.go_back([open_still, used_up]) == used_up
    assert (set(made.done), made.go_tos) == ({"x", "y", "a", "b"}, {"step:b": 1})


def test_ways_back_to_two_phases_lead_to_the_earlier_one() -> None:
    made = plan({"x": []}, {"y": [], "z": []}, {"a": [], "b": []})
    settle(made, "x", "y", "z", "a", "b")
    made.phase = 2

    used_up = made.go_back(
        [
            WayBack("step:a", GoTo(go_to="x", at_most=1), "a"),
            WayBack("step:b", GoTo(go_to="y", at_most=1), "b"),
        ]
    )

    assert (used_up, made.phase, made.done) == (None, 0, {})


@given(st.lists(st.lists(st.integers(0, 7), max_size=3), min_size=1, max_size=8))
def test_every_step_is_started_once_and_never_before_its_needs(needs: list[list[int]]) -> None:
    graph = {
        f"s{number}": [f"s{need}" for need in sorted(set(needs[number])) if need < number]
        for number in range(len(needs))
    }
    made, started = plan(graph), []
    while steps := ready(made):
        for step in steps:
            assert all(need in made.done for need in graph[step])
        started += steps
        settle(made, *steps)

    assert sorted(started) == sorted(graph)
