import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executors.secret_values import MASKED, Mask


def masked(values, data, piece):
    mask = Mask(values)
    parts = [mask.feed(data[start : start + piece]) for start in range(0, len(data), piece)]
    return b"".join([*parts, mask.finish()])


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 7, 64, 1_000])
def test_a_value_is_found_wherever_the_pieces_part(piece):
    text = b"a token-12345 b token-12345token-12345 c token-1234"
    assert masked(["token-12345"], text, piece) == b"a [masked] b [masked][masked] c token-1234"


@pytest.mark.parametrize("piece", [1, 4, 1_000])
def test_the_longer_of_two_values_goes_as_a_whole(piece):
    assert masked(["secret", "secret-long"], b"x secret-long y secret z", piece) == b"x [masked] y [masked] z"


@given(st.text("ab", max_size=60), st.lists(st.text("ab", min_size=4, max_size=8), max_size=3), st.integers(1, 9))
def test_no_value_survives_and_the_pieces_do_not_matter(text, values, piece):
    data = text.encode()
    result = masked(values, data, piece)
    assert result == masked(values, data, 10_000)
    assert not any(value.encode() in result for value in values)


@given(st.binary(max_size=200), st.integers(1, 50))
def test_what_is_no_value_stays_as_it_is(data, piece):
    assert masked(["0123456789abcdef"], data, piece) == data
    assert masked([], data, piece) == data


def test_the_json_form_of_a_value_is_masked_too():
    value = 'multi\nline "quoted" ü'
    text = json.dumps({"key": value}) + json.dumps({"key": value}, ensure_ascii=False)
    assert "quoted" not in Mask([value]).text(text)


def test_very_short_values_are_left_because_they_stand_in_any_text():
    assert Mask(["on", "1"]).text("only 1 person") == "only 1 person"


def test_masking_twice_changes_nothing():
    once = Mask(["token-12345"]).text("a token-12345")
    assert once == f"a {MASKED}" == Mask(["token-12345"]).text(once)
