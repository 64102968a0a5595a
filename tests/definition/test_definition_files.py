import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from poimen.contracts.canonical import definition_hash
from poimen.contracts.definition import WorkflowDef
from poimen.contracts.message import decode, encode
from poimen.contracts.problems import InvalidInput
from worker.definitions import load_definition

RELEASE = """\
name: release-checks
scope: acme/api
budget: {attempts: 30, tokens: 200000, time: 30m}
retry: {attempts: 4, first_delay: 1s, factor: 2, longest_delay: 1m}
environment: {python: {command: [python, --version]}, lock: {file: uv.lock}, image: "env:IMAGE"}
phases:
  - id: T0
    title: Environment
    steps:
      - id: install
        tool: executor
        run: {command: [python, -m, pip, install, -e, .], timeout: 5m}
        verify: {command: [python, -c, "import api"]}
        repairs:
          - {id: clear-cache, command: [rm, -rf, .cache], before: true}
      - id: plan
        tool: planner
        needs: [install]
        run: {model: small, prompt: "Plan the release.\\n{{context}}"}
        judge: {command: [./score-plan], pass: 0.8}
        on_failure: {go_to: install, at_most: 1}
    gate: {command: [./smoke]}
"""
HEAD = """\
name: fix-tests
scope: acme/api
budget: {attempts: 12, time: 1h}
phases:
  - id: T0
    steps:
      - id: fix
        tool: implementer
"""
NEEDS = 'a definition is one object with "name", "scope", "phases".'


@pytest.fixture
def load(tmp_path: Path) -> Any:
    def write_and_load(content: str | bytes, name: str = "release.yaml") -> WorkflowDef:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return load_definition(path)

    return write_and_load


def refused(load: Any, *written: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        load(*written)
    return str(caught.value)


def test_yaml_and_json_give_the_same_definition_and_hash(load: Any) -> None:
    from_yaml = load(RELEASE)
    from_json = load(json.dumps(encode(from_yaml), indent="\t"), "release.json")
    assert from_yaml == from_json
    assert definition_hash(from_yaml) == definition_hash(from_json)
    assert from_yaml.phases[0].steps[0].repairs[0].before is True
    assert float(from_yaml.phases[0].steps[1].judge.pass_) == 0.8


def test_plain_yaml_text_stays_as_it_was_typed(load: Any) -> None:
    plain = "[sleep, 5, no, 012, 1:30, 2026-11-29, null, ~, .nan, 1e3, 0x1F, True]"
    loaded = load(f"{HEAD}        run: {{command: {plain}, env: {{A: 1, B: yes, C: }}}}\n".replace("fix-tests", "on"))
    run = loaded.phases[0].steps[0].run
    assert run.command == tuple(plain.strip("[]").split(", "))
    assert run.env == {"A": "1", "B": "yes", "C": ""}
    assert loaded.name == "on"


def test_null_is_nothing_where_a_field_may_be_left_out(load: Any) -> None:
    loaded = load(HEAD + "        title: ~\n        retry:\n        run: {command: [x], cwd: null, timeout: 20m}\n")
    assert loaded.phases[0].steps[0].title is None
    assert loaded.phases[0].steps[0].run.cwd is None


def test_quoted_null_is_text(load: Any) -> None:
    assert load(HEAD + '        title: "~"\n        run: {command: [x]}\n').phases[0].steps[0].title == "~"


@pytest.mark.parametrize("text", [HEAD.replace("\n", "\r\n"), "\ufeff" + HEAD])
def test_line_ends_and_a_byte_order_mark_do_not_matter(load: Any, text: str) -> None:
    last = "        run: {command: [x]}\n"
    assert definition_hash(load(text + last)) == definition_hash(load(HEAD + last))


STEP = "phases[0].steps[0]"


@pytest.mark.parametrize(
    ("last", "sentence"),
    [
        ("        run: {comand: [x]}\n", f'line 9: {STEP}.run has no field "comand"; did you mean "command"?'),
        (
            "        run:\n          # why\n          comand: [x]\n",
            f'line 11: {STEP}.run has no field "comand"; did you mean "command"?',
        ),
        ("        run: {command: [x], timeout: 30}\n", f'line 9: {STEP}.run.timeout has no unit; write "30s".'),
        (
            "        run:\n          command:\n            - x\n            - {}\n",
            f"line 12: {STEP}.run.command[1] is an object; text is needed.",
        ),
        ("        needs: [fox]\n        run: {command: [x]}\n", 'line 9: Step fix needs "fox", which is no step.'),
        (
            "        run: {command: [x]}\n        retry: {attempts: yes}\n",
            f"line 10: {STEP}.retry.attempts is text; a whole number is needed.",
        ),
        (
            '        run: {command: [x]}\n        retry: {attempts: "3"}\n',
            f"line 10: {STEP}.retry.attempts is text; a whole number is needed.",
        ),
        (
            "        run: {command: [x]}\n        retry: {attempts: 012}\n",
            f"line 10: {STEP}.retry.attempts is text; a whole number is needed.",
        ),
        (
            "        run: {command: [x]}\n        retry: {factor: .nan}\n",
            f"line 10: {STEP}.retry.factor is text; a number is needed.",
        ),
        (
            "        run: {command: [x]}\n        retry: {factor: 1e999}\n",
            f"line 10: {STEP}.retry.factor is not a finite number.",
        ),
        (
            "        run: {command: [x]}\n        repairs: [{id: a, command: [b], before: on}]\n",
            f"line 10: {STEP}.repairs[0].before is text; true or false is needed.",
        ),
        ('        run: {command: ["a\\0"]}\n', f"line 9: {STEP}.run.command contains U+0000 in item 1."),
        ("        run: {command: [x]}\n        <<: {a: 1}\n", f"line 10: {STEP} has a field that is not known."),
        ("        run: {command: [x]}\n     bad: 1\n", "line 10, column 6: not valid YAML: expected a key."),
        ("        run: {command: [x]\n        verify: 1\n", 'line 10, column 9: not valid YAML: expected "," or "}".'),
        (
            "        run: command: [x]\n",
            "line 9, column 21: not valid YAML: a colon is not allowed here; quote the text.",
        ),
        ("\trun: {command: [x]}\n", "line 9, column 1: not valid YAML: a tab is not allowed here; indent with spaces."),
        ("        run\n        needs: []\n", "line 10, column 9: not valid YAML: expected a colon after a key."),
        (
            "        run: {command: [@x]}\n",
            "line 9, column 25: not valid YAML: a character that begins no text; quote the text.",
        ),
        ('        run: {command: ["x]}\n', "line 10, column 1: not valid YAML: a quote is not closed."),
        ('        run: {command: ["\\x"]}\n', "line 9, column 28: not valid YAML: an unknown escape in a quoted text."),
        ("        run: &a {command: [x]}\n", "line 9: anchors and aliases (& and *) are not allowed; quote the text."),
        ("        run: *a\n", "line 9: anchors and aliases (& and *) are not allowed; quote the text."),
        ("        run: !!python/object:os.system {}\n", "line 9: tags (!) are not allowed; quote the text."),
        ("        run: {command: [x], command: [y]}\n", 'line 9: "command" is there twice.'),
        ("        ? [x]\n        : y\n", "line 9: a key must be text."),
        (f"        run: {'[' * 30}{']' * 30}\n", "line 9: nested deeper than 20 levels."),
        (f"        needs: [{'x, ' * 20_000}x]\n", "line 9: more than 10,000 values."),
        ("---\na: 1\n", "line 10: one document is needed; it has more."),
        ("        run: {command: [\a]}\n", "line 9, column 25: not valid YAML: U+0007 is not allowed in a file."),
    ],
)
def test_what_is_wrong_is_told_with_its_line(load: Any, last: str, sentence: str) -> None:
    assert refused(load, HEAD + last) == f"release.yaml {sentence}"


@pytest.mark.parametrize(
    ("content", "name", "sentence"),
    [
        ("", "release.yaml", f"release.yaml is empty; {NEEDS}"),
        ("# nothing yet\n", "release.yaml", f"release.yaml is empty; {NEEDS}"),
        ("null", "release.json", f"release.json is empty; {NEEDS}"),
        ("- a\n", "release.yaml", f"release.yaml has a list; {NEEDS}"),
        ("text", "release.yaml", f"release.yaml has text; {NEEDS}"),
        ("5", "release.json", f"release.json has a number; {NEEDS}"),
        (b"\x89PNG\r\n\x1a\n\x00", "release.yaml", "release.yaml is not UTF-8 text (byte 1)."),
        (
            b"name: \x00",
            "release.yaml",
            "release.yaml line 1, column 7: not valid YAML: U+0000 is not allowed in a file.",
        ),
        ("a: 1", "release.txt", "release.txt has no known form; name it .yaml, .yml or .json."),
        (
            "a" * 1_048_577,
            "release.yaml",
            "release.yaml has 1,048,577 bytes; at most 1,048,576. Pass large texts as files.",
        ),
        (
            '{"name": "x",\n"scope" "y"}',
            "release.json",
            "release.json line 2, column 9: not valid JSON: expecting ':' delimiter.",
        ),
        (
            '{"a":' + "[" * 5_000 + "]" * 5_000 + "}",
            "release.json",
            "release.json: The definition: the input is nested deeper than 100 levels.",
        ),
        (
            '{\n"name": NaN, "scope": "a", "phases": []}',
            "release.json",
            "release.json line 2: name is not a finite number.",
        ),
        ('{"name": "a",\n"name": "b"}', "release.json", "release.json: name is given twice."),
        (
            (
                '{"name": "x", "scope": "s", "phases": [\n\t{"id": "T0", "steps": ['
                '\n\t\t{"id": "a",\n\t\t "run": {"comand": ["x"]}}]}]}'
            ),
            "release.json",
            'release.json line 4: phases[0].steps[0].run has no field "comand"; did you mean "command"?',
        ),
        (
            "scope:\nname: a\n",
            "a b.yaml",
            "The file line 1: scope is empty; give 1 to 256 characters. The file line 1: phases is missing.",
        ),
    ],
)
def test_a_file_that_is_no_definition_is_refused_by_name(load: Any, content: Any, name: str, sentence: str) -> None:
    assert refused(load, content, name) == sentence


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    sentences = {
        "missing.yaml": "missing.yaml is not there.",
        "folder.yaml": "folder.yaml is a folder; give a file.",
        "pipe.yaml": "pipe.yaml is not a regular file.",
        "missing.yaml/x.yaml": "x.yaml is not there.",
        "folder.yaml/" + "x" * 300 + ".yaml": "The file cannot be read.",
    }
    for name, sentence in sentences.items():
        with pytest.raises(InvalidInput) as caught:
            load_definition(tmp_path / name)
        assert str(caught.value) == sentence


def test_a_problem_keeps_its_field_beside_the_sentence(load: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        load(HEAD + "        run: {comand: [x]}\n")
    assert caught.value.problems[0].field == "phases[0].steps[0].run.comand"


@given(st.text(max_size=200))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_text_is_loaded_or_refused_with_a_sentence(load: Any, text: str) -> None:
    for name in ("any.yaml", "any.json"):
        for content in (text, HEAD + text):
            with pytest.raises(InvalidInput) as caught:
                load(content.encode("utf-8", "surrogatepass"), name)
            assert str(caught.value).startswith(name)


texts = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="/\ufffd"), min_size=1, max_size=12)


@given(st.lists(texts, min_size=1, max_size=5), texts, texts)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_a_yaml_writer_writes_reads_the_same(load: Any, argv: list[str], name: str, prompt: str) -> None:
    assume(not prompt.startswith("env:"))  # which names a variable, and must be a name
    step = {"id": name, "run": {"command": argv, "prompt": prompt, "env": {"A": prompt}}}
    data = {"name": name, "scope": prompt, "phases": [{"id": name, "steps": [step]}]}
    assert load(yaml.safe_dump(data, allow_unicode=True)) == decode(WorkflowDef, data).message
