import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from poimen.contracts.definition import Run
from poimen.contracts.durations import PATTERN, format_duration, parse_duration
from poimen.contracts.message import Part, decode
from poimen.contracts.problems import InvalidInput


class Timed(Part):
    run: Run


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("30m", 1_800_000), ("1s", 1_000), ("500ms", 500), ("1h30m", 5_400_000), ("1d", 86_400_000), ("60s", 60_000)],
)
def test_a_duration_is_whole_milliseconds(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize(
    ("value", "predicate"),
    [
        (30, 'has no unit; write "30s"'),
        ("30", 'has no unit; write "30s"'),
        (1.5, 'has no unit; write "30s"'),
        ("", 'is no duration; write it as "30s", "1h30m" or "500ms"'),
        ("1:30", 'is no duration; write it as "30s", "1h30m" or "500ms"'),
        ("30m1h", 'is no duration; write it as "30s", "1h30m" or "500ms"'),
        ("-5s", 'is no duration; write it as "30s", "1h30m" or "500ms"'),
        ("1.5s", 'is no duration; write it as "30s", "1h30m" or "500ms"'),
        ("५s", 'is no duration; write it as "30s", "1h30m" or "500ms"'),
        ("30s\n", 'is no duration; write it as "30s", "1h30m" or "500ms"'),
        ("367d", "is too long; at most 366d"),
        ("0s", "is zero; it must be longer"),
        (True, 'is true; text such as "30s", "1h30m" or "500ms" is needed'),
        (["1s"], 'is a list; text such as "30s", "1h30m" or "500ms" is needed'),
    ],
)
def test_what_is_no_duration_is_refused_with_the_way_to_write_it(value: Any, predicate: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        decode(Timed, {"run": {"command": ["x"], "timeout": value}})
    assert str(caught.value) == f"run.timeout {predicate}."


def test_python_may_give_a_timedelta() -> None:
    assert Run(command=["x"], timeout=timedelta(minutes=2)).timeout == 120_000
    with pytest.raises(ValidationError):
        Run(command=["x"], timeout=timedelta(seconds=-1))


@given(st.integers(0, 366 * 86_400_000))
def test_the_written_form_parses_back(milliseconds: int) -> None:
    written = format_duration(milliseconds)
    assert re.fullmatch(r"[0-9]+(ms|[dhms])", written)
    assert parse_duration(written) == milliseconds


@given(st.from_regex(PATTERN, fullmatch=True).map(str.strip))
def test_whatever_the_published_pattern_takes_is_a_duration_or_too_long(text: str) -> None:
    try:
        parse_duration(text)
    except PydanticCustomError as error:
        refused = error.context
    else:
        refused = None
    assert refused in (None, {"predicate": "is too long; at most 366d"})
