"""The Dockerfile, parsed: what it copies is there, what it starts from is named, and it does not run as root."""

import json
import re
import tomllib
from fnmatch import fnmatch

from tests.packaging.programs import ROOT, run_program

JOINED = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
LINES = [line for line in JOINED.splitlines() if line and not line.startswith("#")]
INSTRUCTIONS = [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in LINES)]


def told(word: str) -> list[str]:
    return [rest for name, rest in INSTRUCTIONS if name == word]


def copied_from_the_folder() -> list[str]:
    copies = [rest.split() for rest in told("COPY") if "--from=" not in rest]
    return [source for parts in copies for source in parts[:-1] if not source.startswith("--")]


def test_the_base_image_has_a_version() -> None:
    images = [image.split()[0] for image in told("FROM")]
    assert images
    assert all(re.fullmatch(r"python:3\.\d+-slim-\w+", image) for image in images)
    minor = int(images[0].split(".")[1].split("-")[0])
    assert minor >= 11
    assert len(set(images)) == 1, "the interpreter that builds is the one that runs"


def test_everything_copied_is_tracked_and_passes_the_ignore_file() -> None:
    tracked = run_program(["git", "ls-files"]).splitlines()
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for source in copied_from_the_folder():
        assert any(file == source or file.startswith(f"{source}/") for file in tracked), source
        assert any(source == name or source.startswith(f"{name}/") for name in allowed), source


def test_every_package_of_the_wheels_is_in_the_image() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {*packages, "client"} <= set(copied_from_the_folder())


def test_everything_is_installed_by_hash_or_offline() -> None:
    commands = [part.strip() for rest in told("RUN") for part in rest.split("&&")]
    installs = [command for command in commands if re.search(r"\bpip (install|wheel)\b", command)]
    assert len(installs) == 4
    assert all("--require-hashes" in command or "--no-index" in command for command in installs)
    locks = [name for command in installs for name in re.findall(r"-r (\S+)", command)]
    assert set(locks) == {"requirements/build.lock", "requirements/runtime.lock"}


def test_it_runs_as_a_user_without_rights_and_without_a_shell() -> None:
    assert told("USER") == ["10001:10001"]
    assert INSTRUCTIONS.index(("USER", "10001:10001")) > INSTRUCTIONS.index(("FROM", told("FROM")[-1]))
    assert json.loads(told("ENTRYPOINT")[0]) == ["poimen"]
    assert json.loads(told("CMD")[0]) == ["worker"]


def test_no_secret_and_no_state_gets_into_the_image() -> None:
    patterns = (ROOT / ".dockerignore").read_text().splitlines()
    assert patterns[1] == "*"
    allowed = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    assert not [name for name in allowed if fnmatch(name, ".*")]
    assert not [
        name
        for word, rest in INSTRUCTIONS
        if word in {"ARG", "ENV"}
        for name in re.findall(r"(\w+)=", rest)
        if re.search(r"PASSWORD|TOKEN|KEY|DSN", name)
    ]
