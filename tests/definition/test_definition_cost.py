"""Validation runs in a workflow's own thread, so its work must grow with the definition and no faster."""

import json
import sys
from collections.abc import Callable
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

import pytest

from poimen.contracts.definition import WorkflowDef
from poimen.contracts.message import decode
from poimen.contracts.problems import MOST_PROBLEMS, InvalidInput
from poimen.contracts.step_order import StepOrder

Fields = dict[str, Any]


def step(number: int, **fields: Any) -> Fields:
    return {"id": f"compile-and-test-{number:03d}", "run": {"command": ["x"]}, **fields}


def definition(steps: list[Fields]) -> Fields:
    return {"name": "n", "scope": "s", "phases": [{"id": "T0", "steps": steps}]}


def before(number: int, count: int) -> list[str]:
    return [f"compile-and-test-{other:03d}" for other in range(max(0, number - count), number)]


def misspelt(size: int) -> Fields:
    return definition([step(number, needs=[f"compile-adn-test-{number:03d}x"]) for number in range(size)])


def misspelt_ways_back(size: int) -> Fields:
    back = {"go_to": "compile-adn-test-000", "at_most": 1}
    return definition([step(number, on_failure=back) for number in range(size)])


def going_back(size: int) -> Fields:
    back = {"on_failure": {"go_to": "compile-and-test-000", "at_most": 1}}
    return definition([step(number, needs=before(number, 60), **(back if number else {})) for number in range(size)])


def held_by_a_cycle(size: int) -> Fields:
    steps = [step(number, needs=before(number, 60)) for number in range(size)]
    steps[-2]["needs"] = [steps[-1]["id"]]
    return definition(steps)


def repeated(size: int) -> Fields:
    return definition([step(0), step(1, needs=["compile-and-test-000"] * size)])


def with_unknown_fields(size: int) -> Fields:
    return definition([{**step(number), **{f"comand{other}": 1 for other in range(20)}} for number in range(size)])


def refused(data: Fields) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        decode(WorkflowDef, data, "The definition")
    return caught.value


def calls(data: Fields) -> int:
    """Count what Python calls as it reads a definition: the work, whatever the machine."""
    text, count = json.dumps(data), 0

    def see(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        decode(WorkflowDef, text, "The definition")
    except InvalidInput as error:
        str(error)
    finally:
        sys.setprofile(None)
    return count


def values(part: Any) -> int:
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return 1 + sum(values(item) for item in inner)


SHAPES = [misspelt, misspelt_ways_back, going_back, held_by_a_cycle, with_unknown_fields]


@pytest.mark.parametrize("shape", SHAPES)
def test_four_times_the_steps_take_about_four_times_the_work(shape: Callable[[int], Fields]) -> None:
    small, large = calls(shape(120)), calls(shape(480))
    assert large < 5.5 * small


@pytest.mark.parametrize("data", [*(shape(480) for shape in SHAPES), repeated(50_000)], ids=lambda _: "shape")
def test_no_definition_takes_more_than_some_calls_for_each_of_its_values(data: Fields) -> None:
    assert calls(data) < 40 * values(data) + 50_000


def test_needs_past_their_limit_are_refused_as_a_list() -> None:
    assert str(refused(repeated(501))) == "phases[0].steps[1].needs has 501 items; at most 500."


def test_no_more_faults_are_looked_for_than_are_kept() -> None:
    assert len(refused(misspelt(480)).problems) == MOST_PROBLEMS


def test_only_the_problems_that_are_shown_have_a_hint() -> None:
    problems = refused(misspelt(100)).problems
    assert [number for number, problem in enumerate(problems) if "did you mean" in problem.reason] == [0, 1, 2, 3, 4]


def test_a_hint_is_the_nearest_of_many_names() -> None:
    data = misspelt(400)
    data["phases"][0]["steps"][0]["needs"] = ["compile-adn-test-377"]
    assert 'did you mean "compile-and-test-377"?' in refused(data).problems[0].reason
    assert SequenceMatcher(None, "compile-adn-test-377", "compile-and-test-377").ratio() > 0.9


def test_thousands_of_sources_are_refused_before_any_is_read() -> None:
    data = definition([step(0)]) | {"environment": {f"V{number}": "no source" for number in range(5_000)}}
    assert str(refused(data)) == "environment has 5,000 entries; at most 100."


def test_thousands_of_steps_are_refused_before_any_is_read() -> None:
    data = definition([{"no": "step"} for _ in range(5_000)])
    assert str(refused(data)) == "The definition has 5,000 steps; at most 500."


LONG = "a" * 60_000


@pytest.mark.parametrize(
    "fields",
    [
        {"run": {"command": ["x", *[LONG] * 5]}},
        {"run": {"command": ["x"], "env": {f"A{number}": LONG for number in range(5)}}},
        {"verify": {"command": ["x", *[LONG] * 5]}},
        {"repairs": [{"id": f"r{number}", "command": ["x", LONG]} for number in range(5)]},
    ],
)
def test_what_a_step_carries_beside_its_prompt_is_bounded_in_all(fields: Fields) -> None:
    with pytest.raises(InvalidInput) as caught:
        decode(WorkflowDef, definition([step(0) | fields]))
    begin, _, end = str(caught.value).partition(" have 300,")
    assert begin == "Step compile-and-test-000: its commands, variables and repairs"
    assert end.endswith(" bytes as JSON; at most 262,144 without the prompt and the rubric. Pass a file.")


def test_a_step_is_measured_as_it_travels() -> None:
    assert "Pass a file." in str(refused(definition([step(0) | {"run": {"command": ["x", "ä" * 50_000]}}])))


def test_a_prompt_and_a_rubric_do_not_count_among_the_commands() -> None:
    run = {"command": ["x", *[LONG] * 4], "prompt": LONG}
    judge = {"model": "m", "rubric": LONG}
    assert decode(WorkflowDef, definition([step(0) | {"run": run, "judge": judge}]))


def test_a_whole_definition_is_bounded() -> None:
    steps = [step(number) | {"run": {"command": ["x"], "prompt": LONG}} for number in range(18)]
    error = str(refused(definition(steps)))
    assert error.startswith("The definition has 1,0")
    assert error.endswith(" bytes as JSON; at most 1,048,576. Pass files.")
    assert decode(WorkflowDef, definition(steps[:17]))


def test_what_is_needed_through_others_is_known() -> None:
    order = StepOrder({"c": ("b", "elsewhere"), "b": ("a", "a"), "a": (), "d": ("a",)})
    assert [pair for pair in pairwise("abcd") if order.is_needed(*pair)] == [("a", "b"), ("b", "c")]
    assert order.is_needed("a", "c")
    assert not order.is_needed("a", "a")
    assert not order.is_needed("elsewhere", "c")
    assert order.cycle == []


def test_a_cycle_is_found_behind_what_waits_for_it() -> None:
    order = StepOrder({"free": (), "waits": ("free", "x"), "x": ("y",), "y": ("free", "x")})
    assert order.cycle == ["x", "y", "x"]
