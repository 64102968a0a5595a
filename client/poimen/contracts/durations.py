"""Durations as people write them ("30m", "1h30m", "500ms") and as code counts them (integer milliseconds)."""

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from poimen.contracts.problems import needed, refusal

_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}  # milliseconds
_LONGEST_DAYS = 366
_LONGEST = _LONGEST_DAYS * _UNITS["d"]
PATTERN = r"^(?=[0-9])([0-9]{1,11}d)?([0-9]{1,11}h)?([0-9]{1,11}m(?!s))?([0-9]{1,11}s)?([0-9]{1,11}ms)?$"
_WRITTEN = re.compile(PATTERN)
_PIECE = re.compile(r"([0-9]+)(ms|[dhms])")
_BARE = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
_HOW = 'write it as "30s", "1h30m" or "500ms"'


def parse_duration(value: Any) -> int:
    """Return the milliseconds of "1h30m" or a timedelta, or raise the refusal of anything else."""
    if isinstance(value, timedelta):
        return _bounded(value // timedelta(milliseconds=1))
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise refusal('has no unit; write "30s"')
    if not isinstance(value, str):
        raise needed(f"text such as {_HOW.removeprefix('write it as ')}")
    if _BARE.fullmatch(value):
        raise refusal('has no unit; write "30s"')
    if not _WRITTEN.fullmatch(value):
        raise refusal(f"is no duration; {_HOW}")
    return _bounded(sum(int(count) * _UNITS[unit] for count, unit in _PIECE.findall(value)))


def format_duration(milliseconds: int) -> str:
    """Return the shortest single-unit form that parses back: 90,000 gives "90s", 1,500 gives "1500ms"."""
    if milliseconds == 0:
        return "0s"
    unit, size = next((unit, size) for unit, size in _UNITS.items() if milliseconds % size == 0)
    return f"{milliseconds // size}{unit}"


def _bounded(milliseconds: int) -> int:
    if milliseconds < 0:
        raise refusal("is negative")
    if milliseconds > _LONGEST:
        raise refusal(f"is too long; at most {_LONGEST_DAYS}d")
    return milliseconds


def _above_zero(value: Any) -> int:
    milliseconds = parse_duration(value)
    if milliseconds == 0:
        raise refusal("is zero; it must be longer")
    return milliseconds


_AS_TEXT = PlainSerializer(format_duration, return_type=str, when_used="json")
_SCHEMA = WithJsonSchema({"type": "string", "pattern": PATTERN, "examples": ["30s", "1h30m", "500ms"]})

Duration = Annotated[int, BeforeValidator(parse_duration), _AS_TEXT, _SCHEMA]
"""Integer milliseconds, written "30m", "1s", "500ms" or "1h30m"; at most 366 days."""

TimeLimit = Annotated[int, BeforeValidator(_above_zero), _AS_TEXT, _SCHEMA]
"""A Duration above zero."""
