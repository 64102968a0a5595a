"""What a terminal is shown of texts that others wrote."""

import pytest

from worker.cli.output import one_line, plain


@pytest.mark.parametrize(
    "text",
    [
        "a\x1b]0;my title\x07b",
        "a\x1b]8;;http://x.example\x1b\\b",
        "a\x1b[31;1mb",
        "a\x9b2Jb",
        "a\x1bP1$r\x1b\\b",
        "a\x1b(Bb",
        "a\x9d0;t\x9cb",
    ],
)
def test_what_a_terminal_would_obey_is_not_shown(text: str) -> None:
    assert (one_line(text), plain(text)) == ("ab", "ab")


def test_a_sequence_that_is_cut_short_ends_with_its_line() -> None:
    assert plain("a\x1b]0;title\nb") == "a\nb"


def test_lines_and_their_indent_stay() -> None:
    assert plain("one\n  two\x07\tthree") == "one\n  two  three"


def test_what_a_signature_masked_is_shown_as_left_out() -> None:
    assert one_line("listen tcp :<number>: address in use in <path>.go") == "listen tcp :…: address in use in ….go"


def test_other_angle_brackets_stay() -> None:
    assert one_line("unexpected <html>") == "unexpected <html>"
