import os
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LOCKS = ("bootstrap", "build", "dev", "local", "runtime")


def pinned(lock: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{lock}.lock").read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", text, flags=re.MULTILINE))


def wanted(lock: str) -> list[Requirement]:
    root = tomllib.loads((ROOT / "pyproject.toml").read_text())
    client = tomllib.loads((ROOT / "client/pyproject.toml").read_text())
    texts = {
        "build": root["build-system"]["requires"] + client["build-system"]["requires"],
        "runtime": root["project"]["dependencies"] + client["project"]["dependencies"],
    }
    extras = root["project"]["optional-dependencies"]
    texts["local"] = texts["runtime"] + [text for name in extras for text in extras[name]]
    texts["dev"] = texts["local"] + root["dependency-groups"]["dev"]
    return [Requirement(text) for text in texts[lock] if not text.startswith("poimen-")]


@pytest.mark.parametrize("lock", ["build", "runtime", "local", "dev"])
def test_a_lock_pins_what_the_projects_ask_for(lock: str) -> None:
    pins = pinned(lock)
    for requirement in wanted(lock):
        assert requirement.specifier.contains(pins[requirement.name.lower()]), requirement


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_a_hash_for_everything_and_an_index_for_nothing(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.lock").read_text()
    assert "://" not in text
    entries = re.split(r"^(?=[a-z0-9-]+==)", text, flags=re.MULTILINE)[1:]
    assert entries
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("lock", ["build", "local", "runtime"])
def test_a_smaller_lock_agrees_with_the_one_for_development(lock: str) -> None:
    dev = pinned("dev")
    assert {name: dev[name] for name in pinned(lock) if name in dev}.items() <= pinned(lock).items()


def test_a_python_that_does_not_run_is_passed_over(tmp_path: Path) -> None:
    for name, body in {
        "python3.13": "exit 127",
        "python3.12": "echo /usr/bin/false; exit 1",
        "python3.11": f'exec {sys.executable} "$@"',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(stat.S_IRWXU)
    path = f"{tmp_path}{os.pathsep}{os.defpath}"
    made = subprocess.run(
        ["make", "--silent", "python"], cwd=ROOT, env={"PATH": path}, capture_output=True, text=True, check=True
    )
    assert made.stdout.strip() == sys.executable


def test_without_a_python_that_is_new_enough_make_says_what_to_do(tmp_path: Path) -> None:
    for name in ("sh", "make"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3").chmod(stat.S_IRWXU)
    argv = ["/usr/bin/make", "--silent", "python"]
    environment = {"PATH": str(tmp_path)}
    made = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 2
    assert "Python 3.11 or newer" in made.stderr
