"""Signing costs a bounded amount whatever the text is made of."""

import time

import pytest

from memory.signatures import error_signature, log_signature, sign

PIECES = {
    "letters": "a",
    "digits": "1",
    "dots": "a.",
    "slashes": "a/",
    "dashes": "a-",
    "underscores": "_",
    "quotes": "\"'`",
    "escaped quotes": '\\"',
    "braces": '{"a":',
    "brackets": "[(",
    "colour": "\x1b[31m",
    "half a colour code": "\x1b[",
    "spaces": " ",
    "short lines": "x\n",
    "error lines": "error: no such thing\n",
    "frames": "\n at x",
    "Python frames": '  File "a", line 1, in x\n',
    "causes": "Caused by: ",
    "addresses": "a@b.",
    "codes": "exit exit code ",
    "hex": "0xdeadbeef",
    "colons": ":1",
    "pairs": 'k="',
    "capitals": "aError",
    "stamps": "2024-01-01 ",
    "waits": "retry after ",
    "surrogates": "\ud800",
    "zeros": "\x00",
}


def seconds(text: str) -> float:
    started = time.perf_counter()
    sign(text)
    log_signature(text)
    return time.perf_counter() - started


@pytest.mark.parametrize("piece", PIECES)
def test_a_longer_text_costs_no_more_than_its_length(piece: str) -> None:
    small, large = (PIECES[piece] * (size // len(PIECES[piece])) for size in (60_000, 600_000))
    floor = 0.01  # of a second: below it, the clock measures the machine
    assert seconds(large) <= 80 * max(floor, seconds(small))


@pytest.mark.parametrize("piece", PIECES)
def test_a_line_costs_no_more_than_its_length(piece: str) -> None:
    short, long = (f"error: {(PIECES[piece] * size)[:size]}\n" * 8 for size in (150, 1_800))
    floor = 0.01  # of a second
    assert seconds(long) <= 80 * max(floor, seconds(short))


def test_ten_megabytes_on_one_line_are_signed() -> None:
    line = "x" * 10_000_000
    assert error_signature(line) != error_signature(f"{line}\nValueError: no region")
