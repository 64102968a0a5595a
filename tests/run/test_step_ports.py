"""What a step shows to the server stays within what every server takes."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from poimen.step_rules import MOST_BYTES, MOST_EVENTS, history_is_full
from workflows.step_ports import keyword


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
