"""Every instant of every message has a time zone, for one without cannot be compared with the others."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, get_args

import pytest
from pydantic import AwareDatetime, BaseModel, TypeAdapter, ValidationError

from poimen.contracts import execution, memory_calls, run_io
from poimen.contracts.message import Instant, Message, decode
from poimen.contracts.problems import InvalidInput
from poimen.contracts.run_io import StartHarnessStep

MESSAGES = [
    found
    for module in (execution, memory_calls, run_io)
    for found in vars(module).values()
    if isinstance(found, type) and issubclass(found, BaseModel)
]


def speaks_of(annotation: Any, *kinds: object) -> bool:
    return annotation in kinds or any(speaks_of(part, *kinds) for part in get_args(annotation))


INSTANTS = [
    (message, name)
    for message in MESSAGES
    for name, field in message.model_fields.items()
    if speaks_of(field.annotation, datetime, AwareDatetime)
]


def read(value: Any) -> datetime:
    return TypeAdapter(Instant).validate_python(value)


def test_there_are_instants_to_check() -> None:
    assert (StartHarnessStep, "deadline_at") in INSTANTS


@pytest.mark.parametrize(("message", "name"), INSTANTS)
def test_a_message_refuses_an_instant_without_a_time_zone(message: type[Message], name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        message.model_validate_json(json.dumps({name: "2026-12-29T20:00:00"}))
    assert {"loc": (name,), "type": "timezone_aware"} in [
        {"loc": found["loc"], "type": found["type"]} for found in caught.value.errors()
    ]


def test_a_step_with_a_deadline_without_a_time_zone_is_refused_in_a_sentence() -> None:
    data = {"scope": "a", "step": {"id": "s", "run": {"command": ["x"]}}, "deadline_at": "2026-12-29T20:00:00"}
    with pytest.raises(InvalidInput, match=r"^deadline_at is no instant with a time zone; write it as "):
        decode(StartHarnessStep, data)


def test_an_instant_is_kept_in_utc() -> None:
    there = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))
    assert (read(there), read(there).tzinfo) == (there, UTC)


def test_an_instant_that_has_no_form_in_utc_is_refused() -> None:
    with pytest.raises(ValidationError, match="refused"):
        read(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))))
