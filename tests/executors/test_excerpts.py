import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executors.excerpts import BothEnds
from poimen.excerpts import HEAD_BYTES, TAIL_BYTES, encoded_size


def excerpt_of(data, piece=4_096):
    ends = BothEnds()
    for start in range(0, len(data), piece):
        ends.feed(data[start : start + piece])
    assert ends.size == len(data)
    return ends.excerpt()


def lines(count):
    return "".join(f"line {number}\n" for number in range(count))


def test_a_short_output_is_kept_whole():
    excerpt = excerpt_of("kürz\n".encode())
    assert (excerpt.head, excerpt.tail, excerpt.complete) == ("kürz\n", "", True)


@pytest.mark.parametrize("count", [300, 500, 700, 20_000])
def test_a_longer_output_keeps_both_ends_at_whole_lines(count):
    text = lines(count)
    excerpt = excerpt_of(text.encode())
    assert text.startswith(excerpt.head)
    assert text.endswith(excerpt.tail)
    assert excerpt.head.endswith("\n")
    assert excerpt.tail.startswith("line ")
    assert excerpt.complete == (len(excerpt.head) + len(excerpt.tail) == len(text))


def test_the_ends_do_not_overlap():
    text = lines(400)
    excerpt = excerpt_of(text.encode())
    assert excerpt.complete
    assert excerpt.head + excerpt.tail == text


@given(st.binary(max_size=60_000), st.integers(1, 9_000))
def test_any_bytes_stay_within_the_bounds_as_json(data, piece):
    excerpt = excerpt_of(data * 3, piece)
    assert encoded_size(excerpt.head) <= HEAD_BYTES
    assert encoded_size(excerpt.tail) <= TAIL_BYTES
    json.dumps(excerpt.head + excerpt.tail).encode("utf-8")
    (excerpt.head + excerpt.tail).encode("utf-8")


def test_the_ends_use_the_room_there_is():
    excerpt = excerpt_of("é".encode() * 9_000)
    assert encoded_size(excerpt.head) > HEAD_BYTES - 10
    assert encoded_size(excerpt.tail) > TAIL_BYTES - 10


@given(st.binary(max_size=9_000), st.integers(0, 3_000), st.integers(2, 3_000))
def test_less_room_is_kept_to_as_well(data, head, tail):
    ends = BothEnds()
    ends.feed(data * 3)
    excerpt = ends.excerpt(head, tail)
    assert encoded_size(excerpt.head) <= max(head, 2)
    assert encoded_size(excerpt.tail) <= tail


@pytest.mark.parametrize("line", ["ärger im büro: naïve façade\n", "日本語のログ出力\n", "👩‍👩‍👧 ok\n"])
def test_text_in_other_scripts_is_not_binary_wherever_the_cut_falls(line):
    for shift in range(4):
        excerpt = excerpt_of(b"x" * shift + line.encode() * 5_000)
        assert not excerpt.binary
        assert "\ufffd" not in excerpt.head + excerpt.tail


def test_coloured_output_is_not_binary():
    assert not excerpt_of(b"\x1b[31merror\x1b[0m: no\r\n" * 200).binary


def test_unreadable_runs_become_one_character_each():
    excerpt = excerpt_of(b"before " + bytes(range(128, 256)) * 3 + b" between " + b"\0" * 500 + b" after")
    assert excerpt.head == "before \ufffd between \u2400 after"
    assert excerpt.binary


def test_one_bad_byte_does_not_make_a_text_binary():
    assert excerpt_of(b"caf\xe9 au lait, s'il vous plait\n").head == "caf\ufffd au lait, s'il vous plait\n"
    assert not excerpt_of(b"caf\xe9 au lait, s'il vous plait\n").binary


def test_random_bytes_are_binary():
    assert excerpt_of(random.Random(7).randbytes(100_000)).binary


def test_what_was_left_out_is_said():
    text = lines(20_000)
    excerpt = excerpt_of(text.encode())
    assert f"the middle of {len(text):,} bytes left out" in excerpt.text(len(text))
    assert excerpt_of(b"all").text(3) == "all"
