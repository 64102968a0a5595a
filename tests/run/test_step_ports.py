"""What a step shows to the server stays within what every server takes."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from poimen.contracts.definition import Step
from poimen.step_rules import MOST_BYTES, MOST_EVENTS, history_is_full
from workflows.step_ports import keyword, running


@given(st.text(max_size=300))
@example("\U0001f600" * 256)
def test_a_keyword_is_a_beginning_that_every_server_takes(text: str) -> None:
    cut = keyword(text)

    assert text.startswith(cut)
    assert len(cut) <= 255
    assert len(json.dumps(cut)) <= 2_048


@pytest.mark.parametrize("text", ["acme/api", "s" * 255, "\u0436" * 255])
def test_a_text_that_fits_is_a_keyword_as_it_is(text: str) -> None:
    assert keyword(text) == text


def test_a_history_is_full_at_either_bound() -> None:
    assert history_is_full(MOST_EVENTS, 0)
    assert history_is_full(0, MOST_BYTES)
    assert not history_is_full(MOST_EVENTS - 1, MOST_BYTES - 1)


@pytest.mark.parametrize(("left", "most"), [(None, "300"), (1_000.0, "300"), (10.04, "10"), (0.0, "0")])
def test_a_page_promises_no_longer_wait_than_the_budget_leaves(left: float | None, most: str) -> None:
    own = Step.model_validate({"id": "plan", "run": {"activity": {"name": "make_plan"}}})

    assert running(own, "plans", left) == f"running, or waiting for a worker on queue plans (at most {most} s)"
    assert running(Step.model_validate({"id": "a", "run": {"command": ["true"]}}), "plans", left) == "running"
