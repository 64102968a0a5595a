"""Read one JSON object from outside: bounded in size, depth and numbers, free of lone surrogates."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from poimen.contracts.problems import InvalidInput, Place, Problem, kind_of, path_text, problem_at, safe_name

MAX_BYTES = 2 * 1024 * 1024
MAX_DEPTH = 100
MAX_VALUES = 100_000
_INT64 = range(-(2**63), 2**63)

# A string that is never closed runs to the end, so a hostile text is still read once.
_MARKS = re.compile(r'"(?:[^"\\]++|\\.?)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Object(dict[str, Any]):
    repeated: str | None = None


@dataclass
class Reading:
    """What was read: plain JSON values, the places whose text was mended, and what is refused."""

    value: Any = None
    mended: list[Place] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    values: int = 0


def read_object(data: bytes | str | Mapping[str, Any], label: str, wanted: str) -> Reading:
    """Return the one JSON object in `data`, or raise InvalidInput. `wanted` says what should be sent."""
    value = dict(data) if isinstance(data, Mapping) else _parse(_text(data, label), label, wanted)
    if not isinstance(value, dict):
        raise InvalidInput(Problem("", f"{wanted}; it got {kind_of(value)}."))
    reading = Reading()
    reading.value = _clean(value, (), reading)
    if reading.problems:
        raise InvalidInput(*reading.problems)
    return reading


# What U+FFFD stands for where a text was read: itself, or what could not be read.
MENDED: Final = "a lone surrogate or U+FFFD"


def mend_surrogates(text: str) -> str:
    """Return text that UTF-8 can hold: surrogate pairs are joined, lone ones become U+FFFD."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def too_large(size: int, label: str) -> InvalidInput:
    """Return the refusal of a message of `size` bytes."""
    return InvalidInput(Problem("", f"{label}: the input has {size:,} bytes; at most {MAX_BYTES:,}."))


def _text(data: bytes | str, label: str) -> str:
    size = len(data)
    if size > MAX_BYTES:
        raise too_large(size, label)
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        sentence = f"{label}: the input is not UTF-8 text (byte {error.start + 1:,})."
        raise InvalidInput(Problem("", sentence)) from None


def _parse(text: str, label: str, wanted: str) -> Any:
    if not text.strip():
        raise InvalidInput(Problem("", f"{wanted}; it got none."))
    _refuse_deep(text, label)
    try:
        return json.loads(text, parse_int=_whole_number, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno:,}, column {error.colno:,}"
        reason = error.msg[0].lower() + error.msg[1:]
        raise InvalidInput(Problem("", f"{label}: {place}: not valid JSON: {reason}.")) from None


def _refuse_deep(text: str, label: str) -> None:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for mark in _MARKS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(mark[0], 0)
        if depth > MAX_DEPTH:
            raise InvalidInput(Problem("", f"{label}: the input is nested deeper than {MAX_DEPTH} levels."))


def _whole_number(digits: str) -> int:
    # Python refuses to convert some thousand digits; any number out of range is refused with its place later.
    return int(digits) if len(digits) <= 20 else _INT64.stop


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    found = _Object()
    for key, value in pairs:
        if key in found:
            found.repeated = key
        found[key] = value
    return found


def _clean(value: Any, place: Place, reading: Reading) -> Any:
    reading.values += 1
    if reading.values > MAX_VALUES:
        raise InvalidInput(Problem("", f"The input has more than {MAX_VALUES:,} values."))
    if len(place) > MAX_DEPTH:
        raise InvalidInput(Problem("", f"The input is nested deeper than {MAX_DEPTH} levels."))
    if isinstance(value, dict):
        return _clean_object(value, place, reading)
    if isinstance(value, list | tuple):
        return [_clean(item, (*place, number), reading) for number, item in enumerate(value)]
    if isinstance(value, str):
        return _clean_text(value, place, reading)
    predicate = _refused(value)
    if predicate:
        reading.problems.append(problem_at(place, f"{path_text(place)} {predicate}."))
    return value


def _clean_object(value: dict[Any, Any], place: Place, reading: Reading) -> dict[str, Any]:
    repeated = value.repeated if isinstance(value, _Object) else None
    if repeated is not None:
        where = path_text((*place, repeated)) if safe_name(repeated) else f"{path_text(place) or 'A'} field"
        reading.problems.append(problem_at(place, f"{where} is given twice."))
    cleaned = {}
    for key, item in value.items():
        if isinstance(key, str):
            cleaned[mend_surrogates(key)] = _clean(item, (*place, key), reading)
        else:
            owner = path_text(place) or "The input"
            reading.problems.append(problem_at(place, f"{owner} has a field name that is not text."))
    return cleaned


def _clean_text(value: str, place: Place, reading: Reading) -> str:
    mended = mend_surrogates(value)
    if mended != value:
        reading.mended.append(place)
    return mended


def _refused(value: Any) -> str | None:
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        return None if value in _INT64 else f"is out of range; whole numbers go up to {_INT64.stop - 1:,}"
    if isinstance(value, float):
        return None if math.isfinite(value) else "is not a finite number"
    return "is of a type that JSON does not have"
