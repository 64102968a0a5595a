"""Sentences for refused input: field paths, limits, counts and safe identifiers, never a value."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from difflib import get_close_matches
from heapq import nlargest
from itertools import pairwise
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

PathPart = str | int
Place = tuple[PathPart, ...]

SHOWN_PROBLEMS = 5  # problems in one message; a person mends the first few and asks again
MOST_PROBLEMS = 50
_COMPARED = 20
_SAFE_NAME = re.compile(r"[\w.@-]{1,64}")

_NEEDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "decimal_type": "a number",
    "decimal_parsing": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "datetime_type": "an instant",
    "none_required": "null",
}
_TOO_SMALL = {"greater_than_equal": "at least", "greater_than": "more than"}
_TOO_LARGE = {"less_than_equal": "at most", "less_than": "less than"}
_NO_INSTANT = 'is no instant with a time zone; write it as "2026-01-31T12:00:00Z"'
_WORDS = {
    "missing": "is missing",
    "finite_number": "is not a finite number",
    "datetime_parsing": _NO_INSTANT,
    "datetime_from_date_parsing": _NO_INSTANT,
    "datetime_object_invalid": _NO_INSTANT,
    "timezone_aware": _NO_INSTANT,
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One refused place: the field's path (`phases[0].steps[1].run`, "" for the whole) and the sentence.

    `place` is the same path in parts.
    """

    field: str
    reason: str
    place: Place = ()


def problem_at(place: Place, sentence: str) -> Problem:
    """Return the problem of one place in the input."""
    return Problem(path_text(place), sentence, place)


class InvalidInput(ValueError):
    """Input that is refused for good. `problems` has every place, `str()` the first few as sentences."""

    def __init__(self, *problems: Problem) -> None:
        self.problems: tuple[Problem, ...] = problems[:MOST_PROBLEMS]
        super().__init__(*self.problems)

    def __str__(self) -> str:
        sentences = [problem.reason for problem in self.problems[:SHOWN_PROBLEMS]]
        left = len(self.problems) - SHOWN_PROBLEMS
        if left > 0:
            sentences.append(f"{counted(left, 'more problem')}.")
        return " ".join(sentences)


@dataclass(frozen=True, slots=True)
class Fault:
    """A sentence about a place below the value under validation."""

    where: Place
    sentence: str


def refusal(predicate: str) -> PydanticCustomError:
    """Raise this in a validator: `predicate` follows the field's path, as in "is empty; give 1 to 9 items".

    The text of any other error a validator raises is not shown, for it may hold a value.
    """
    return PydanticCustomError("refused", "refused", {"predicate": predicate})


def needed(kind: str) -> PydanticCustomError:
    """Raise this in a validator for a value of the wrong type: "timeout is a list; {kind} is needed."."""
    return PydanticCustomError("needed", "refused", {"kind": kind})


def faults_found(faults: Sequence[Fault]) -> PydanticCustomError:
    """Raise this in a model validator for faults that have whole sentences of their own."""
    return PydanticCustomError("faults", "refused", {"faults": tuple(faults[:MOST_PROBLEMS])})


def counted(number: int, noun: str) -> str:
    """Return "1 character" or "5,000 characters"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def safe_name(name: object) -> str | None:
    """Return a name that may be shown: up to 64 word characters, `-`, `.`, `_` or `@`; else None."""
    return name if isinstance(name, str) and _SAFE_NAME.fullmatch(name) else None


def quoted(names: Iterable[str]) -> str:
    """Return `"a", "b"` for field names or identifiers, leaving out those that may not be shown."""
    return ", ".join(f'"{name}"' for name in names if safe_name(name))


def hint(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean "command"?` when a known name is close to this one, else a full stop."""
    pairs = _pairs(name)
    # A cheap measure first: the exact one takes a tenth of a millisecond and more for each name.
    likely = nlargest(_COMPARED, sorted(filter(safe_name, known)), key=lambda other: len(pairs & _pairs(other)))
    close = get_close_matches(name, likely, n=1, cutoff=0.7) if safe_name(name) else []
    return f'; did you mean "{close[0]}"?' if close else "."


def _pairs(name: str) -> set[tuple[str, str]]:
    return set(pairwise(name))


def kind_of(value: object) -> str:
    """Return what a JSON value is, in words: `true`, `null`, "text", "a list", …"""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping | BaseModel):
        return "an object"
    if isinstance(value, list | tuple | set | frozenset):
        return "a list"
    if isinstance(value, float) and not value.is_integer():
        return "a number with a fraction"
    return {str: "text", int: "a number", float: "a number"}.get(type(value), "something else")


def path_text(place: Place) -> str:
    """Return `phases[0].steps[1].run`; a name that may not be shown becomes `(a name)`."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (safe_name(part) or "(a name)")
    return text


def places(error: ValidationError, data: object) -> Iterator[tuple[Place, ErrorDetails]]:
    """Yield each error with its place in `data`, without the names pydantic adds for union members."""
    seen: set[tuple[Place, str]] = set()
    for detail in error.errors(include_url=False):
        place, member = _place_in(data, detail)
        key = (place, "" if member else detail["type"])  # one finding stands for all members of a union
        if key not in seen and not _is_consequence(detail):
            seen.add(key)
            yield place, detail


def explain(error: ValidationError, model: type[BaseModel], data: object, label: str) -> InvalidInput:
    """Return pydantic's findings about `data` as sentences. `label` is its name ("The definition")."""
    found: list[Problem] = []
    for place, detail in places(error, data):
        found.extend(_problems(place, detail, model, label))
        if len(found) >= MOST_PROBLEMS:
            break
    return InvalidInput(*found)


def _is_consequence(detail: ErrorDetails) -> bool:
    # pydantic counts only the items that are valid, so a refused item may make a list too short as well
    return detail["type"] == "too_short" and len(detail["input"]) >= detail["ctx"]["min_length"]


def _place_in(data: object, detail: ErrorDetails) -> tuple[Place, bool]:
    place: list[PathPart] = []
    here: Any = data
    member = False
    for number, part in enumerate(detail["loc"], 1):
        if _holds(here, part):
            here = here[part]
        elif detail["type"] != "missing" or number < len(detail["loc"]):
            member = True
            continue
        place.append(part)
    return tuple(place), member


def _holds(here: Any, part: PathPart) -> bool:
    if isinstance(here, Mapping):
        return part in here
    return isinstance(here, list | tuple) and isinstance(part, int) and part < len(here)


def _problems(place: Place, detail: ErrorDetails, model: type[BaseModel], label: str) -> list[Problem]:
    context = detail.get("ctx", {})
    if detail["type"] == "faults":
        return [problem_at(place + fault.where, fault.sentence) for fault in context["faults"]]
    if detail["type"] == "extra_forbidden":
        owner = path_text(place[:-1]) or label
        return [problem_at(place, f"{owner} {_unknown_field(place, model)}")]
    subject = path_text(place) or label
    return [problem_at(place, f"{subject} {_predicate(detail, context)}.")]


def _unknown_field(place: Place, model: type[BaseModel]) -> str:
    name = safe_name(place[-1])
    if name is None:
        return "has a field that is not known."
    known = [field for owner in _models_at(model, place[:-1]) for field in field_names(owner)]
    return f'has no field "{name}"{hint(name, known)}'


def field_names(model: type[BaseModel]) -> list[str]:
    """Return the names a message's fields have on the wire."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _models_at(model: type[BaseModel], place: Place) -> list[type[BaseModel]]:
    here = [model]
    for part in place:
        fields = [
            field for owner in here for name, field in owner.model_fields.items() if part == (field.alias or name)
        ]
        if fields:
            here = [inner for field in fields for inner in _models_in(field.annotation)]
    return here


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [inner for part in get_args(annotation) for inner in _models_in(part)]


def _predicate(detail: ErrorDetails, context: Mapping[str, Any]) -> str:
    kind = detail["type"]
    if kind == "refused":
        return str(context["predicate"])
    if kind in _WORDS:
        return _WORDS[kind]
    need = context["kind"] if kind == "needed" else _NEEDS.get(kind)
    if need is not None:
        return f"is {kind_of(detail['input'])}; {need} is needed"
    return _limit(kind, context, detail["input"]) or "is not valid"


def _limit(kind: str, context: Mapping[str, Any], value: object) -> str | None:
    if kind in {"literal_error", "enum"}:
        return f"must be one of {context['expected'].replace(chr(39), chr(34))}"
    if kind in _TOO_SMALL:
        return f"is too small; {_TOO_SMALL[kind]} {_bound(context)} is needed"
    if kind in _TOO_LARGE:
        return f"is too large; {_TOO_LARGE[kind]} {_bound(context)} is allowed"
    # A validator before a limit hides from pydantic what is counted, so the value itself says it.
    noun = "character" if isinstance(value, str) else "item"
    if kind in {"string_too_short", "too_short"}:
        return f"is {'too short' if value else 'empty'}; give at least {counted(context['min_length'], noun)}"
    if kind in {"string_too_long", "too_long"} and isinstance(value, Sized):
        return f"has {counted(len(value), noun)}; at most {context['max_length']:,}"
    return None


def _bound(context: Mapping[str, Any]) -> str:
    limit = next(context[name] for name in ("ge", "gt", "le", "lt") if name in context)
    return f"{limit:,}" if isinstance(limit, int) else str(limit)
