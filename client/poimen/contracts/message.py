"""What every message is made of: frozen strict models, text and identifiers, one way in and one way out."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Generic, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    Strict,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)

from poimen.contracts.json_text import MAX_BYTES, MENDED, mend_surrogates, read_object, too_large
from poimen.contracts.problems import (
    InvalidInput,
    Problem,
    counted,
    explain,
    field_names,
    needed,
    path_text,
    quoted,
    refusal,
    safe_name,
)

_WARNINGS = 20
_DIGITS = 15  # what a JSON number keeps in every language
# Control characters, separators of lines, marks of direction, lone surrogates and what they become.
_ODD_CHARACTERS = "\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff\\ufffd"
_ODD = re.compile(f"[{_ODD_CHARACTERS}]")
_ODD_OR_SLASH = re.compile(f"[/{_ODD_CHARACTERS}]")

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class Message(BaseModel):
    """A message that crosses a boundary. Unknown fields are ignored; `decode` names them in its warnings."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        strict=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        validate_by_name=True,
        validate_by_alias=True,
    )


class Part(BaseModel):
    """A part of a definition. Unknown fields are refused, for a misspelt one would change what runs."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        validate_by_name=True,
        validate_by_alias=True,
    )


@dataclass(frozen=True, slots=True)
class Decoded(Generic[M]):
    """A message with the sentences about what was ignored or mended on its way in."""

    message: M
    warnings: tuple[str, ...]


def _free_text(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, str):
        return value
    clean = mend_surrogates(value).replace("\0", "\u2400")
    if clean != value and isinstance(info.context, list):
        characters = counted(value.count("\0"), "NUL character")
        info.context.append(f"{info.field_name or 'text'}: {characters} replaced by U+2400")
    return clean


def check_identifier(value: str, longest: int, *, slash: bool = True) -> str:
    """Return the identifier, or raise the refusal of an empty or too long one or an odd character."""
    if not value:
        raise refusal(f"is empty; give 1 to {longest:,} characters")
    if len(value) > longest:
        raise refusal(f"has {len(value):,} characters; at most {longest:,}")
    odd = (_ODD if slash else _ODD_OR_SLASH).search(value)
    if odd:
        raise refusal(f"contains {_character_name(odd[0])} at character {odd.start() + 1:,}")
    if value != value.strip():
        raise refusal("begins or ends with white space")
    return value


def _character_name(character: str) -> str:
    if character == "\ufffd":
        return MENDED
    return '"/"' if character == "/" else f"U+{ord(character):04X}"


def _identifier(longest: int, *, slash: bool = True) -> BeforeValidator:
    def check(value: Any) -> Any:
        return check_identifier(value, longest, slash=slash) if isinstance(value, str) else value

    return BeforeValidator(check)


def _checked_queue(value: str) -> str:
    if value.startswith("/_sys/"):
        raise refusal('begins with "/_sys/", which is reserved; choose another')
    return value


def _text_schema(longest: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "minLength": 1, "maxLength": longest})


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise needed("a number")
    number = Decimal(str(value))
    if number.is_finite() and len(number.normalize().as_tuple().digits) > _DIGITS:
        raise refusal(f"has more than {_DIGITS} digits")
    return number


def _in_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise refusal("is out of range; give a year from 1 to 9999, in UTC") from None


def _json_number(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)


# Lenient in the tuple alone. A validator before it would make JSON Python, where strict takes no text as instant.
Many = Annotated[tuple[T, ...], Strict(False)]
"""A tuple that takes a list as well."""

FreeText = Annotated[str, BeforeValidator(_free_text)]
"""Text that is never refused for its characters: NUL becomes U+2400, a lone surrogate U+FFFD."""

Scope = Annotated[str, _identifier(256), _text_schema(256)]
"""An exact opaque name inside a tenant, 1 to 256 characters."""

Name = Annotated[str, _identifier(128), _text_schema(128)]
"""The name of a tool, a model or a definition, 1 to 128 characters."""

StepId = Annotated[str, _identifier(128, slash=False), _text_schema(128)]
"""The id of a step, phase or repair: a Name without "/", so that RUN/STEP can be taken apart."""

Identifier = Annotated[str, _identifier(1000), _text_schema(1000)]
"""An id somebody else chose, such as a workflow id or an idempotency key, 1 to 1,000 characters."""

Queue = Annotated[str, _identifier(200), AfterValidator(_checked_queue), _text_schema(200)]
"""The name of a task queue, 1 to 200 characters; those that begin with "/_sys/" are the server's own."""

ActivityName = Annotated[str, _identifier(200), _text_schema(200)]
"""The registered name of an activity, 1 to 200 characters."""

Instant = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""An instant with a time zone, kept in UTC."""

Number = Annotated[
    Decimal,
    BeforeValidator(_number),
    PlainSerializer(_json_number, return_type=int | float, when_used="json"),
    WithJsonSchema({"type": "number"}),
]
"""An exact decimal of up to 15 digits, a plain number in JSON."""


def decode(model: type[M], data: bytes | str | Mapping[str, Any] | None, label: str = "The input") -> Decoded[M]:
    """Return the message in one JSON object, or raise InvalidInput. `label` is who asks ("GetContext")."""
    if data is None or (isinstance(data, bytes | str) and not data):
        raise InvalidInput(Problem("", f"{_wanted(model, label)}; it got none."))
    reading = read_object(data, label, _wanted(model, label))
    text = json.dumps(reading.value, ensure_ascii=False)
    notes: list[str] = [f"{path_text(place)}: lone surrogates replaced by U+FFFD" for place in reading.mended]
    try:
        message = model.model_validate_json(text, by_alias=True, by_name=False, context=notes)
    except ValidationError as error:
        raise explain(error, model, reading.value, label) from None
    size = len(text.encode())
    if size > MAX_BYTES:
        raise too_large(size, label)
    return Decoded(message, _shortened([*_unknown(message, reading.value, ()), *notes]))


def encode(message: BaseModel) -> dict[str, Any]:
    """Return the message as plain JSON values, fit for `decode`."""
    return message.model_dump(mode="json", by_alias=True)


def _wanted(model: type[BaseModel], label: str) -> str:
    required = [field.alias or name for name, field in model.model_fields.items() if field.is_required()]
    fields = f" with {quoted(required)}" if required else ""
    return f"{label} needs one JSON object{fields}"


def _unknown(message: Any, data: Any, place: tuple[str | int, ...]) -> list[str]:
    if isinstance(message, BaseModel) and isinstance(data, dict):
        return _unknown_fields(message, data, place)
    inner: list[tuple[str | int, Any, Any]] = []
    if isinstance(message, tuple | list) and isinstance(data, list):
        inner = [(number, item, raw) for number, (item, raw) in enumerate(zip(message, data, strict=False))]
    elif isinstance(message, dict) and isinstance(data, dict):
        inner = [(key, item, data.get(key)) for key, item in message.items()]
    return [found for part, item, raw in inner for found in _unknown(item, raw, (*place, part))]


def _unknown_fields(message: BaseModel, data: dict[str, Any], place: tuple[str | int, ...]) -> list[str]:
    known = field_names(type(message))
    found = [_ignored((*place, name)) for name in data if name not in known]
    for name, field in type(message).model_fields.items():
        alias = field.alias or name
        if alias in data:
            found.extend(_unknown(getattr(message, name), data[alias], (*place, alias)))
    return found


def _ignored(place: tuple[str | int, ...]) -> str:
    if safe_name(place[-1]) is None:
        return f"an unknown field of {path_text(place[:-1]) or 'the input'} ignored"
    return f'unknown field "{path_text(place)}" ignored'


def _shortened(warnings: list[str]) -> tuple[str, ...]:
    left = len(warnings) - _WARNINGS
    if left <= 0:
        return tuple(warnings)
    return (*warnings[:_WARNINGS], counted(left, "more warning"))
