import json
from typing import Any

import pytest

from poimen.contracts.definition import WorkflowDef
from poimen.contracts.problems import field_names
from poimen.schema import definition_schema

SCHEMA = definition_schema()


def models() -> list[str]:
    return ["", *SCHEMA["$defs"]]


def part(name: str) -> dict[str, Any]:
    found = SCHEMA["$defs"][name] if name else SCHEMA
    return found["anyOf"][1] if name == "EnvironmentSource" else found


@pytest.mark.parametrize("name", models())
def test_every_field_is_described(name: str) -> None:
    undescribed = [field for field, schema in part(name)["properties"].items() if not schema.get("description")]
    assert undescribed == []


@pytest.mark.parametrize("name", models())
def test_unknown_fields_are_refused_everywhere(name: str) -> None:
    assert part(name)["additionalProperties"] is False


def test_the_schema_has_the_fields_of_the_definition() -> None:
    assert list(SCHEMA["properties"]) == field_names(WorkflowDef)
    assert SCHEMA["required"] == ["name", "scope", "phases"]
    assert "pass" in part("Judge")["properties"]


def test_durations_are_patterned_text_with_text_defaults() -> None:
    delay = part("Retry")["properties"]["first_delay"]
    assert (delay["type"], delay["default"]) == ("string", "1s")
    assert delay["pattern"].startswith("^")


def test_on_failure_is_a_word_or_a_way_back() -> None:
    forms = part("Step")["properties"]["on_failure"]["oneOf"]
    assert forms == [{"enum": ["stop", "skip"], "type": "string"}, {"$ref": "#/$defs/GoTo"}]


def test_an_environment_source_may_be_one_text() -> None:
    assert SCHEMA["$defs"]["EnvironmentSource"]["anyOf"][0]["type"] == "string"


def test_exactly_one_way_to_run_is_required() -> None:
    assert part("Run")["oneOf"] == [{"required": ["command"]}, {"required": ["model"]}, {"required": ["activity"]}]


def test_the_schema_is_plain_json_and_each_call_gives_its_own() -> None:
    definition_schema()["properties"].clear()
    assert json.loads(json.dumps(definition_schema())) == SCHEMA
