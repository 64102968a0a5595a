"""The JSON Schema of a definition, for editors that complete and check a harness file."""

from typing import Any

from poimen.contracts.definition import WorkflowDef
from poimen.contracts.durations import PATTERN, format_duration

_ONE_OF = {
    "Run": ("command", "model", "activity"),
    "Check": ("command", "activity"),
    "Gate": ("command", "activity"),
    "Judge": ("command", "model", "activity"),
}


def definition_schema() -> dict[str, Any]:
    """Return the schema as plain JSON values (draft 2020-12)."""
    schema = WorkflowDef.model_json_schema(by_alias=True, mode="validation")
    parts = schema["$defs"]
    for part in [schema, *parts.values()]:
        part["properties"] = {name: _for_editors(field) for name, field in part["properties"].items()}
    for name, fields in _ONE_OF.items():
        parts[name]["oneOf"] = [{"required": [field]} for field in fields]
    parts["EnvironmentSource"] = _source(parts["EnvironmentSource"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _for_editors(field: dict[str, Any]) -> dict[str, Any]:
    shown = {name: value for name, value in field.items() if name != "title"}
    default = shown.get("default")
    if default is None or isinstance(default, dict):
        shown.pop("default", None)  # what an editor would fill in for an absent part says nothing
    elif shown.get("pattern") == PATTERN:
        shown["default"] = format_duration(default)
    return shown


def _source(part: dict[str, Any]) -> dict[str, Any]:
    description = part.pop("description")
    variable = {"type": "string", "pattern": "^env:.", "description": part["properties"]["env"]["description"]}
    return {"description": description, "anyOf": [variable, part]}
