"""Start a program as a person would, and read what it prints."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]


def inherited(**changes: str) -> dict[str, str]:
    """Return the environment of this process without what would lead a program elsewhere, and with the changes."""
    known = os.environ
    elsewhere = ("POIMEN_", "TEMPORAL_", "PYTHONPATH", "VIRTUAL_ENV")
    return {name: value for name, value in known.items() if not name.startswith(elsewhere)} | changes


def run_program(
    argv: Sequence[str], *, cwd: Path = ROOT, environment: Mapping[str, str] | None = None, expected: int = 0
) -> str:
    """Return what it prints on standard output; fail with what it printed on standard error."""
    env = dict(environment) if environment is not None else inherited()
    program = shutil.which(argv[0], path=env["PATH"])
    assert program, f"{argv[0]} is not on the path"
    done = subprocess.run([program, *argv[1:]], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == expected, f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout
