"""Keep a message's texts within their fields' limits after they were changed, and read back what is longer."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from memory.masking.shapes import MARK
from poimen.contracts.message import Message
from poimen.contracts.problems import explain

M = TypeVar("M", bound=Message)
CUT: Final = " [cut]"


def restored(model: type[M], stored: Mapping[str, Any]) -> M:
    """Give the message of stored JSON, of any size; a text longer than its field allows is cut, and ends in " [cut]".

    What an earlier version stored is read under the limits of this one. Raises InvalidInput for what is no such message
    for another reason than its length.
    """
    cut = _cut(stored, *_schema(model))
    try:
        return model.model_validate_json(json.dumps(cut), by_alias=True, by_name=False)
    except ValidationError as error:
        raise explain(error, model, cut, model.__name__) from None


@cache
def _schema(model: type[Message]) -> tuple[dict[str, Any], dict[str, Any]]:
    schema = model.model_json_schema()
    return schema, schema.get("$defs", {})


def _cut(value: Any, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Any:
    """Give JSON whose texts have at most the `maxLength` that their place in the schema says."""
    options = [_named(option, definitions) for option in schema.get("anyOf", [schema])]
    if isinstance(value, str):
        longest = next((option["maxLength"] for option in options if "maxLength" in option), None)
        return value if longest is None or len(value) <= longest else _shortened(value, longest)
    if isinstance(value, list):
        items: Mapping[str, Any] = next((option["items"] for option in options if "items" in option), {})
        return [_cut(item, items, definitions) for item in value]
    if isinstance(value, Mapping):
        known: Mapping[str, Any] = next((option["properties"] for option in options if "properties" in option), {})
        others = next((option for option in options if isinstance(option.get("additionalProperties"), dict)), {})
        other = others.get("additionalProperties", {})
        return {name: _cut(item, known.get(name, other), definitions) for name, item in value.items()}
    return value


def _named(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    return definitions[reference.removeprefix("#/$defs/")] if reference else schema


def _shortened(text: str, longest: int) -> str:
    end = longest - len(CUT)
    # Half a mark would be taken for text.
    end = next((mark.start() for mark in MARK.finditer(text) if mark.start() < end < mark.end()), end)
    return text[:end].rstrip() + CUT
