"""Both wheels, installed in fresh environments and used from outside the checkout."""

import json
import shutil
import tomllib
import zipfile
from pathlib import Path

from tests.packaging.conftest import Installed, Wheels, make_venv, uv
from tests.packaging.programs import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]

IMPORT_ALL = """
import importlib, json, sys
from importlib import metadata
found = {}
for distribution in sys.argv[1:]:
    for file in metadata.files(distribution):
        if file.suffix == ".py" and file.parts[0] != "..":
            name = ".".join(file.with_suffix("").parts).removesuffix(".__init__")
            if not name.endswith("__main__"):
                found[name] = importlib.import_module(name).__file__
print(json.dumps(found))
"""
OWNERS = """
import json
from importlib import metadata
print(json.dumps(metadata.packages_distributions()))
"""
INSTALLED = """
import json
from importlib import metadata
print(json.dumps(sorted(one.metadata["Name"].lower() for one in metadata.distributions())))
"""
STARTER_NOTES = """
from memory.stores import starter_notes
print(len(list(starter_notes().rglob("*.md"))))
"""


def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def shipped(folder: str, ending: str) -> set[str]:
    return {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob(f"*{ending}")}


def test_the_wheels_hold_our_packages_and_nothing_else(wheels: Wheels) -> None:
    for wheel, packages in ((wheels.client, ["poimen"]), (wheels.application, PACKAGES)):
        tops = {name.split("/")[0] for name in names(wheel) if ".dist-info/" not in name}
        assert tops == set(packages)


def test_everything_that_is_no_python_is_in_the_wheel_too(wheels: Wheels) -> None:
    inside = set(names(wheels.application))
    endings = (".sql", ".xml", ".sums", ".txt")
    wanted = {name for package in PACKAGES for ending in endings for name in shipped(package, ending)}
    wanted |= shipped("vault", ".md")
    assert wanted
    assert wanted - inside == set()
    assert "poimen/py.typed" in names(wheels.client)


def test_the_application_carries_its_licence_and_that_of_what_it_ships(wheels: Wheels) -> None:
    for file in ("LICENSE", "NOTICE"):
        assert [name for name in names(wheels.application) if name.endswith(f"licenses/{file}")]


def test_every_module_is_imported_from_the_wheel(installed: Installed) -> None:
    found = json.loads(installed.run("python", "-I", "-c", IMPORT_ALL, "poimen-memory", "poimen-client"))
    assert {name.split(".")[0] for name in found} == {*PACKAGES, "poimen"}
    site = str(installed.venv)
    assert [name for name, file in found.items() if not file.startswith(site)] == []


def test_the_names_we_install_belong_to_us_alone(installed: Installed) -> None:
    owners = json.loads(installed.run("python", "-I", "-c", OWNERS))
    for name in PACKAGES:
        assert set(owners[name]) == {"poimen-memory"}
    assert set(owners["poimen"]) == {"poimen-client"}
    assert not {"tests", "examples", "benchmarks"} & owners.keys()


def test_the_command_line_answers(installed: Installed) -> None:
    assert "run a definition" in installed.run("poimen", "--help")
    assert installed.run("poimen", "--version").startswith("poimen-memory ")
    schema = json.loads(installed.run("poimen", "schema"))
    assert {"name", "scope", "phases"} <= schema["properties"].keys()
    assert installed.run("poimen", "migrate", "--dry-run", expected=2) == ""


def test_the_starter_notes_are_found(installed: Installed) -> None:
    notes = int(installed.run("python", "-I", "-c", STARTER_NOTES))
    assert notes == len(shipped("vault", ".md"))


def test_the_client_needs_temporalio_and_pydantic_only(client_alone: Installed) -> None:
    there = set(json.loads(client_alone.run("python", "-I", "-c", INSTALLED)))
    assert {"poimen-client", "temporalio", "pydantic"} <= there
    assert not there & {"psycopg", "psycopg-pool", "structlog", "httpx", "pyyaml", "poimen-memory"}
    found = json.loads(client_alone.run("python", "-I", "-c", IMPORT_ALL, "poimen-client"))
    assert len(found) == len([path for path in shipped("client", ".py") if not path.endswith("__main__.py")])


def test_the_tests_pass_against_the_wheels(wheels: Wheels, tmp_path: Path) -> None:
    """Parts that need files beside their code: queries, migrations, notes, the keeper of a command."""
    away = Installed(make_venv(tmp_path / "venv", "dev.lock"), tmp_path / "away")
    python = str(away.programs / "python")
    uv("pip", "install", "--quiet", "--python", python, "--no-deps", str(wheels.client), str(wheels.application))
    away.folder.mkdir()
    shutil.copytree(ROOT / "tests", away.folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", away.folder)
    chosen = ("definition", "notes", "journal/test_record.py", "executors/test_command.py")
    paths = [f"tests/{name}" for name in chosen]
    told = away.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths)
    assert " passed" in told
