import json
from pathlib import Path

import pytest

from executors.reports import read_report
from executors.secret_values import Mask

SECRET = "ab/cd+EF<gh>'ij&"
MASK = "tok [masked]"


def every_character_escaped(text: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in text)


@pytest.fixture
def report(tmp_path: Path):
    def read(text: str, purpose="step"):
        path, warnings = tmp_path / "result.json", []
        path.write_text(text)
        return read_report(path, purpose, Mask([SECRET]), warnings), warnings

    return read


FORMS = [
    SECRET,
    SECRET.replace("/", "\\/"),
    SECRET.replace("<", "\\u003c").replace(">", "\\u003E").replace("&", "\\u0026"),
    every_character_escaped(SECRET),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("field", ["output", "lesson", "decision"])
def test_a_value_is_masked_however_the_report_writes_it(report, field, form):
    found, _ = report(f'{{"{field}": "tok {form}"}}')
    assert getattr(found, field) == MASK


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("field", ["artifacts", "indexed", "changed_files"])
def test_a_value_is_masked_in_lists_too(report, field, form):
    found, _ = report(f'{{"{field}": ["plain", "tok {form}"]}}')
    assert getattr(found, field) == ("plain", MASK)


def test_a_value_that_is_a_word_of_json_does_not_break_the_report(tmp_path):
    path = tmp_path / "result.json"
    path.write_text('{"output": "the output is null", "tokens": null}')
    assert read_report(path, "step", Mask(["output", "null"]), []).output == "the [masked] is [masked]"


def test_a_value_that_names_a_field_is_masked_in_the_warning(tmp_path):
    path, warnings = tmp_path / "result.json", []
    for text in ('{"hunter-2-hunter": 1}', '{"hunter-2-hunter": 1, "hunter-2-hunter": 1}'):
        path.write_text(text)
        read_report(path, "step", Mask(["hunter-2-hunter"]), warnings)
    assert len(warnings) == 2
    assert "hunter" not in json.dumps(warnings)
