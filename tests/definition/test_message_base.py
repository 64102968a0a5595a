import json
import pickle
from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AwareDatetime, Field

from poimen.contracts.message import (
    FreeText,
    Many,
    Message,
    Name,
    Number,
    Scope,
    StepId,
    decode,
    encode,
)
from poimen.contracts.problems import InvalidInput


class Part(Message):
    title: FreeText = ""
    seen_at: AwareDatetime | None = None


class Order(Message):
    scope: Scope
    attempt: int = Field(1, ge=1, le=1_000)
    score: float = 0.5
    exact: Number = Decimal(1)
    step: StepId | None = None
    tool: Name = "executor"
    error: FreeText = ""
    loud: bool = False
    parts: Many[Part] = ()
    named: dict[str, Part] = Field(default_factory=dict)


class Limited(Message):
    text: Annotated[FreeText, Field(min_length=1, max_length=256)] = "a"
    plain: Annotated[str, Field(max_length=64)] = ""
    tags: Many[Name] = Field((), max_length=2)
    parts: dict[str, Annotated[FreeText, Field(max_length=3)]] = Field(default_factory=dict, max_length=1)


def refused(data: Any, label: str = "GetContext") -> str:
    with pytest.raises(InvalidInput) as caught:
        decode(Order, data, label)
    return str(caught.value)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"text": "a" * 257}, "text has 257 characters; at most 256."),
        ({"text": "\0" * 262_145}, "text has 262,145 characters; at most 256."),
        ({"text": ""}, "text is empty; give at least 1 character."),
        ({"plain": "a" * 65}, "plain has 65 characters; at most 64."),
        ({"tags": ["a", "b", "c"]}, "tags has 3 items; at most 2."),
        ({"parts": {"a": "b", "c": "d"}}, "parts has 2 items; at most 1."),
        ({"parts": {"a": "four"}}, "parts.a has 4 characters; at most 3."),
    ],
)
def test_a_limit_counts_characters_of_text_and_items_of_the_rest(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        decode(Limited, fields)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"scope": ""}, "scope is empty; give 1 to 256 characters."),
        ({"scope": "a" * 257}, "scope has 257 characters; at most 256."),
        ({"scope": "abc\0"}, "scope contains U+0000 at character 4."),
        ({"scope": "ab\x1b[1m"}, "scope contains U+001B at character 3."),
        ({"scope": "a\ud800"}, "scope contains a lone surrogate or U+FFFD at character 2."),
        ({"scope": "a\u202eb"}, "scope contains U+202E at character 2."),
        ({"scope": " a"}, "scope begins or ends with white space."),
        ({"scope": 5}, "scope is a number; text is needed."),
        ({"scope": None}, "scope is null; text is needed."),
        ({}, "scope is missing."),
        ({"scope": "a", "attempt": True}, "attempt is true; a whole number is needed."),
        ({"scope": "a", "attempt": "1"}, "attempt is text; a whole number is needed."),
        ({"scope": "a", "attempt": 1.5}, "attempt is a number with a fraction; a whole number is needed."),
        ({"scope": "a", "attempt": 0}, "attempt is too small; at least 1 is needed."),
        ({"scope": "a", "attempt": 1001}, "attempt is too large; at most 1,000 is allowed."),
        ({"scope": "a", "score": "0.5"}, "score is text; a number is needed."),
        ({"scope": "a", "score": True}, "score is true; a number is needed."),
        ({"scope": "a", "score": float("inf")}, "score is not a finite number."),
        ({"scope": "a", "exact": "0.5"}, "exact is text; a number is needed."),
        ({"scope": "a", "exact": 0.1234567890123456}, "exact has more than 15 digits."),
        ({"scope": "a", "loud": 1}, "loud is a number; true or false is needed."),
        ({"scope": "a", "step": "run/step"}, 'step contains "/" at character 4.'),
        ({"scope": "a", "parts": {}}, "parts is an object; a list is needed."),
        ({"scope": "a", "parts": ["x"]}, "parts[0] is text; an object is needed."),
        ({"scope": "a", "parts": [{"title": 5}]}, "parts[0].title is a number; text is needed."),
        (
            {"scope": "a", "parts": [{"seen_at": "2026-01-31T12:00:00"}]},
            'parts[0].seen_at is no instant with a time zone; write it as "2026-01-31T12:00:00Z".',
        ),
        ({"scope": "a", "named": {"x y": {"title": 5}}}, "named.(a name).title is a number; text is needed."),
        ({"scope": "a", "attempt": {1, 2}}, "attempt is of a type that JSON does not have."),
    ],
)
def test_a_bad_field_is_named_with_its_limit_and_never_its_value(fields: dict[str, Any], sentence: str) -> None:
    assert refused(fields) == sentence


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (None, 'GetContext needs one JSON object with "scope"; it got none.'),
        (b"", 'GetContext needs one JSON object with "scope"; it got none.'),
        (b"  \n", 'GetContext needs one JSON object with "scope"; it got none.'),
        (b"null", 'GetContext needs one JSON object with "scope"; it got null.'),
        (b"[]", 'GetContext needs one JSON object with "scope"; it got a list.'),
        (b"5", 'GetContext needs one JSON object with "scope"; it got a number.'),
        ("{,", "GetContext: line 1, column 2: not valid JSON: expecting property name enclosed in double quotes."),
        (b"\xff", "GetContext: the input is not UTF-8 text (byte 1)."),
        ("[" * 101, "GetContext: the input is nested deeper than 100 levels."),
        ('{"scope": "a", "x": ' + "[" * 1_000_000, "GetContext: the input is nested deeper than 100 levels."),
        ('{"scope": "a", "parts": [' + "1," * 100_000 + "1]}", "The input has more than 100,000 values."),
        ('{"scope": NaN}', "scope is not a finite number."),
        ('{"scope": "a", "score": 1e999}', "score is not a finite number."),
        ('{"scope": "a", "scope": "b"}', "scope is given twice."),
        (
            '{"scope": "a", "attempt": ' + "1" * 5_000 + "}",
            "attempt is out of range; whole numbers go up to 9,223,372,036,854,775,807.",
        ),
        (
            b'{"scope": "' + b"a" * 2_097_152 + b'"}',
            "GetContext: the input has 2,097,165 bytes; at most 2,097,152.",
        ),
    ],
)
def test_input_that_is_no_sound_object_is_refused_in_a_sentence(data: Any, sentence: str) -> None:
    assert refused(data) == sentence


def test_a_mapping_that_contains_itself_is_refused() -> None:
    endless: dict[str, Any] = {"scope": "a"}
    endless["named"] = endless["parts"] = endless
    assert refused(endless) == "The input is nested deeper than 100 levels."


def test_a_deep_text_inside_a_string_is_no_nesting() -> None:
    assert decode(Order, json.dumps({"scope": "a", "error": '"{[' * 1_000})).message.error == '"{[' * 1_000


def test_a_string_of_escapes_that_never_closes_is_read_once() -> None:
    assert "not valid JSON" in refused("{}" * 101 + '{"' + '\\"' * 900_000)
    assert "nested deeper" in refused('{"' + '\\"' * 900_000 + '":' + "[" * 101)


def test_every_problem_is_kept_and_the_message_stays_short() -> None:
    with pytest.raises(InvalidInput) as caught:
        decode(Order, {"scope": "a", "parts": [{"title": 5}] * 9})
    assert len(caught.value.problems) == 9
    assert caught.value.problems[8].field == "parts[8].title"
    assert str(caught.value).endswith("parts[4].title is a number; text is needed. 4 more problems.")


def test_a_refusal_survives_being_sent_to_another_process() -> None:
    with pytest.raises(InvalidInput) as caught:
        decode(Order, {})
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems


def test_unknown_fields_are_ignored_and_named_wherever_they_are() -> None:
    data = {"scope": "a", "colour": 1, "parts": [{"size": 1}], "named": {"k": {"x": {"y": 1}}}, "a b": 2}
    assert decode(Order, data).warnings == (
        'unknown field "colour" ignored',
        "an unknown field of the input ignored",
        'unknown field "parts[0].size" ignored',
        'unknown field "named.k.x" ignored',
    )


def test_warnings_are_bounded() -> None:
    warnings = decode(Order, {"scope": "a"} | {f"field{number}": 1 for number in range(500)}).warnings
    assert len(warnings) == 21
    assert warnings[-1] == "480 more warnings"


def test_free_text_is_mended_and_said_so() -> None:
    decoded = decode(Order, '{"scope": "a", "error": "a\\u0000b\\ud800c", "parts": [{"title": "\\u0000\\u0000"}]}')
    assert decoded.message.error == "a\u2400b\ufffdc"
    assert decoded.message.parts[0].title == "\u2400\u2400"
    assert decoded.warnings == (
        "error: lone surrogates replaced by U+FFFD",
        "error: 1 NUL character replaced by U+2400",
        "title: 2 NUL characters replaced by U+2400",
    )


def test_free_text_is_mended_when_a_message_is_made_in_python_too() -> None:
    assert Order(scope="a", error="a\0\ud800").error == "a\u2400\ufffd"


def test_surrogate_pairs_are_one_character() -> None:
    assert decode(Order, '{"scope": "\\ud83d\\ude00"}').message.scope == "\U0001f600"


def test_messages_cannot_be_changed_and_do_not_show_what_was_refused() -> None:
    order = Order(scope="a")
    with pytest.raises(ValueError, match="frozen"):
        order.scope = "b"
    with pytest.raises(ValueError, match="Input should be a valid integer") as caught:
        Order(scope="a", attempt="hunter2")
    assert "hunter2" not in str(caught.value)


def test_lists_and_instants_come_from_plain_json_and_from_python() -> None:
    data = {"scope": "a", "parts": [{"seen_at": "2026-01-31T12:00:00Z"}]}
    assert decode(Order, data).message == Order(scope="a", parts=[Part(**encode_back("2026-01-31T12:00:00Z"))])


def encode_back(instant: str) -> dict[str, Any]:
    return {"seen_at": decode(Part, {"seen_at": instant}).message.seen_at}


def test_a_byte_order_mark_is_no_part_of_the_json() -> None:
    assert decode(Order, b'\xef\xbb\xbf{"scope": "a"}').message.scope == "a"


@given(
    st.text(min_size=1, max_size=40),
    st.text(max_size=80),
    st.integers(-(10**14), 10**14),
    st.integers(0, 9),
)
def test_what_is_encoded_decodes_to_the_same_message(scope: str, error: str, digits: int, point: int) -> None:
    number = Decimal(digits).scaleb(-point)
    try:
        order = Order(scope=scope, error=error, exact=number, parts=(Part(title=error),))
    except ValueError:
        return
    decoded = decode(Order, json.dumps(encode(order)))
    assert decoded.message == order
    assert decoded.warnings == ()


scalars = st.none() | st.booleans() | st.floats() | st.integers() | st.text()
anything = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@given(anything)
def test_any_json_is_decoded_or_refused_with_a_sentence(data: Any) -> None:
    sentence = "."
    try:
        decode(Order, json.dumps({"scope": "a", "parts": data, "named": data, "error": data}))
    except InvalidInput as error:
        sentence = str(error)
    assert sentence.endswith(".")
