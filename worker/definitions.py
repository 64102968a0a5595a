"""Load a definition from a .yaml, .yml or .json file; what is wrong is told with its file and line."""

import json
import re
import stat
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from poimen.contracts.definition import WorkflowDef
from poimen.contracts.message import decode
from poimen.contracts.problems import InvalidInput, Place, Problem, kind_of, quoted, safe_name
from poimen.schema import definition_schema
from worker.yaml_text import Mapping, Node, Scalar, Sequence, YamlRefused, read_tree

MAX_FILE_BYTES = 1024 * 1024
_LABEL = "The definition"
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,19})")
_REAL = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")
_ANY = frozenset({"null", "boolean", "integer", "number"})

Schema = dict[str, Any]


def load_definition(path: str | Path) -> WorkflowDef:
    """Return the definition in a file, or raise InvalidInput: "release.yaml line 9: …"."""
    file = Path(path)
    name = file.name if safe_name(file.name) else "The file"
    if file.suffix.lower() not in {".yaml", ".yml", ".json"}:
        raise _refused(f"{name} has no known form; name it .yaml, .yml or .json.")
    text = _read(file, name)
    return _from_json(text, name) if file.suffix.lower() == ".json" else _from_yaml(text, name)


def _from_yaml(text: str, name: str) -> WorkflowDef:
    try:
        tree = read_tree(text)
    except YamlRefused as error:
        raise _refused(f"{name} {error.sentence}") from None
    data = None if tree is None else _value(tree, _schema())
    if not isinstance(data, dict):
        raise _no_object(data, name)
    return _decoded(data, tree, name)


def _from_json(text: str, name: str) -> WorkflowDef:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        reason = f"not valid JSON: {error.msg[0].lower()}{error.msg[1:]}"
        raise _refused(f"{name} line {error.lineno:,}, column {error.colno:,}: {reason}.") from None
    except (RecursionError, ValueError):
        data = {}  # nested too deep, or a number too long: the decoder says so
    if not isinstance(data, dict):
        raise _no_object(data, name)
    return _decoded(text, _json_tree(text), name)


def _json_tree(text: str) -> Node | None:
    # JSON reads as YAML but for tabs between values; inside its texts a tab cannot be.
    try:
        return read_tree(text.replace("\t", " "))
    except YamlRefused:
        return None


def _decoded(data: str | dict[str, Any], tree: Node | None, name: str) -> WorkflowDef:
    try:
        return decode(WorkflowDef, data, _LABEL).message
    except InvalidInput as error:
        raise InvalidInput(*_placed(error.problems, tree, name)) from None


def _placed(problems: Iterable[Problem], tree: Node | None, name: str) -> Iterable[Problem]:
    for problem in problems:
        line = _line(tree, problem.place) if tree is not None and problem.place else None
        where = name if line is None else f"{name} line {line:,}"
        yield Problem(problem.field, f"{where}: {problem.reason}", problem.place)


def _line(node: Node, place: Place) -> int:
    line = node.line
    for part in place:
        if isinstance(node, Mapping) and part in node.entries:
            line, node = node.entries[str(part)]
        elif isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
            line = node.line
        else:
            break
    return line


@cache
def _schema() -> Schema:
    # The published schema says where a plain scalar is text and where a number.
    return definition_schema()


def _value(node: Node, schema: Schema) -> Any:
    branches = list(_branches(schema))
    if isinstance(node, Scalar):
        kinds = frozenset(branch["type"] for branch in branches if "type" in branch)
        return _scalar(node.text, kinds) if node.plain else node.text
    if isinstance(node, Sequence):
        items: Schema = next((branch["items"] for branch in branches if "items" in branch), {})
        return [_value(item, items) for item in node.items]
    return {key: _value(value, _field(key, branches)) for key, (_, value) in node.entries.items()}


def _branches(schema: Schema) -> Iterable[Schema]:
    if "$ref" in schema:
        yield from _branches(_schema()["$defs"][schema["$ref"].rpartition("/")[2]])
        return
    alternatives = schema.get("anyOf") or (schema.get("oneOf") if "properties" not in schema else None)
    if not alternatives:
        yield schema
        return
    for alternative in alternatives:
        yield from _branches(alternative)


def _field(key: str, branches: Iterable[Schema]) -> Schema:
    for branch in branches:
        found = branch.get("properties", {}).get(key) or branch.get("additionalProperties")
        if isinstance(found, dict):
            return found
    return {}


def _scalar(text: str, kinds: frozenset[str]) -> Any:
    wanted = kinds or _ANY
    if text in _NULL and ("null" in wanted or "string" not in wanted):
        return None
    if "string" in wanted:
        return text  # as typed: `no`, `012`, `1:30` and dates are text where text is wanted
    if text in _TRUTH:
        return _TRUTH[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _REAL.fullmatch(text) else text


def _read(file: Path, name: str) -> str:
    try:
        content = None
        if not stat.S_ISFIFO(file.stat().st_mode):  # opening one would wait for a writer
            with file.open("rb") as opened:
                content = opened.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise _refused(f"{name} is not there.") from None
    except IsADirectoryError:
        raise _refused(f"{name} is a folder; give a file.") from None
    except (OSError, ValueError):
        raise _refused(f"{name} cannot be read.") from None
    if content is None:
        raise _refused(f"{name} is not a regular file.")
    return _text(content, file, name)


def _text(content: bytes, file: Path, name: str) -> str:
    if len(content) > MAX_FILE_BYTES:
        size = f"{file.stat().st_size:,} bytes; at most {MAX_FILE_BYTES:,}"
        raise _refused(f"{name} has {size}. Pass large texts as files.")
    if not content.strip():
        raise _no_object(None, name)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(f"{name} is not UTF-8 text (byte {error.start + 1:,}).") from None


def _no_object(data: Any, name: str) -> InvalidInput:
    found = "is empty" if data is None else f"has {kind_of(data)}"
    return _refused(f"{name} {found}; a definition is one object with {quoted(_schema()['required'])}.")


def _refused(sentence: str) -> InvalidInput:
    return InvalidInput(Problem("", sentence))
