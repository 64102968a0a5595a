"""What is tracked: names, sizes, reasons for exceptions, queries in use, and nothing of the machine it was made on."""

import ast
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.packaging.programs import ROOT, inherited, run_program

NAMES_THAT_SAY_NOTHING = {"util", "utils", "helper", "helpers", "manager", "managers", "handler", "base", "common"}
LONGEST_FUNCTION, LONGEST_MODULE = 60, 500  # lines
NINE_IN_TEN_FUNCTIONS, NINE_IN_TEN_MODULES = 25, 350
EXCEPTION = re.compile(r"#\s*noqa: [A-Z]+\d+(, [A-Z]+\d+)*(?P<reason>.*)")


@cache
def tracked() -> tuple[Path, ...]:
    listed = run_program(["git", "ls-files", "-z"], environment=inherited()).split("\0")
    return tuple(path for name in listed if name and (path := ROOT / name).is_file())


@cache
def modules() -> tuple[Path, ...]:
    return tuple(path for path in tracked() if path.suffix == ".py")


def of_program(path: Path) -> bool:
    return path.relative_to(ROOT).parts[0] != "tests"


def functions() -> Iterator[tuple[Path, str, int]]:
    """Yield every function with the lines of its body, docstring apart."""
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
                yield path, node.name, (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def ninth_tenth(sizes: list[int]) -> int:
    return sorted(sizes)[len(sizes) * 9 // 10]


def test_names_say_what_a_thing_is() -> None:
    bad = []
    for path in tracked():
        relative = path.relative_to(ROOT)
        words = {part.removesuffix(path.suffix) for part in relative.parts}
        if of_program(path):
            words |= {word for part in words for word in re.split(r"[_\W]", part)}
        bad += [str(relative)] if words & NAMES_THAT_SAY_NOTHING else []
    assert bad == []


def test_functions_are_short() -> None:
    sizes = [
        (size, f"{path.relative_to(ROOT)}: {name}")
        for path, name, size in functions()
        if of_program(path) or name.startswith("test_")
    ]
    assert [told for size, told in sizes if size > LONGEST_FUNCTION] == []
    assert ninth_tenth([size for size, _ in sizes]) <= NINE_IN_TEN_FUNCTIONS


def test_modules_are_short() -> None:
    sizes = {path: path.read_text(encoding="utf-8").count("\n") for path in modules()}
    assert [str(path.relative_to(ROOT)) for path, size in sizes.items() if size > LONGEST_MODULE] == []
    assert ninth_tenth(list(sizes.values())) <= NINE_IN_TEN_MODULES


def test_every_exception_to_a_rule_has_a_reason() -> None:
    bare = []
    for path in modules():
        with path.open("rb") as file:
            comments = [token for token in tokenize.tokenize(file.readline) if token.type == tokenize.COMMENT]
        alone = {token.start[0] for token in comments if token.line.lstrip().startswith("#")}
        for token in comments:
            found = EXCEPTION.match(token.string)
            # A reason too long for the line stands on the line above.
            if found and not found["reason"].strip() and token.start[0] - 1 not in alone:
                bare.append(f"{path.relative_to(ROOT)}:{token.start[0]}")
    assert bare == []


def test_every_ignored_rule_in_the_configuration_has_a_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    lists = re.findall(r'^(?:ignore|"[^"]+") = \[\n(.*?)^\]', text, re.MULTILINE | re.DOTALL)
    rules = [line for part in lists for line in part.splitlines() if re.match(r'\s*"[A-Z]+\d*",', line)]
    assert rules
    assert [line for line in rules if "# because" not in line] == []


def test_nothing_tracked_names_an_index_or_this_machine() -> None:
    hosts = ("py" + "pi.org", "python" + "hosted.org", "test.py" + "pi")
    found = []
    for path in tracked():
        text = path.read_bytes().decode("utf-8", "replace")
        if any(host in text for host in hosts) or f"{ROOT}/" in text:
            found.append(str(path.relative_to(ROOT)))
    assert found == []


def test_every_query_is_used_and_every_query_used_is_there() -> None:
    files = [path for path in tracked() if path.suffix == ".sql" and path.is_relative_to(ROOT / "memory")]
    queries = {name: path for path in files for name in re.findall(r"^-- name: (\w+)", path.read_text(), re.MULTILINE)}
    code = "\n".join(path.read_text() for path in modules() if path.is_relative_to(ROOT / "memory"))
    assert queries
    assert sorted(set(re.findall(r'SQL\[\s*"(\w+)"', code)) - queries.keys()) == []
    assert sorted(name for name in queries if not re.search(rf'"{name}"', code)) == []


@pytest.mark.parametrize("folder", ["memory", "worker"])
def test_every_sql_file_is_loaded_by_the_package_it_lies_in(folder: str) -> None:
    for path in (path for path in tracked() if path.suffix == ".sql" and path.is_relative_to(ROOT / folder)):
        beside = path.parent if path.parent.name != "migrations" else path.parent.parent
        named = path.name if path.parent == beside else "migrations"
        assert any(f'"{named}"' in module.read_text() for module in beside.glob("*.py")), path.name
