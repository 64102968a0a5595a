"""The linter lets programs be started, and the environment be read, in one place each."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STARTS = [
    "import subprocess",
    "import asyncio\n\nasyncio.create_subprocess_exec",
    "import asyncio\n\nasyncio.create_subprocess_shell",
    "from asyncio.subprocess import create_subprocess_exec",
    "import os\n\nos.system",
    "import os\n\nos.fork",
    "import multiprocessing",
]
READS = ["import os\n\nos.environ", "from os import environb", "import os\n\nos.getenv"]


def is_banned(source: str, file: str) -> bool:
    argv = [sys.executable, "-m", "ruff", "check", "--select", "TID251", "--stdin-filename", file, "-"]
    ended = subprocess.run(argv, input=source + "\n", cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode in {0, 1}, ended.stderr
    return ended.returncode == 1


@pytest.mark.parametrize("source", STARTS)
def test_a_program_is_started_behind_its_doors_alone(source: str) -> None:
    assert is_banned(source, "worker/process.py")
    assert is_banned(source, "memory/learn.py")
    assert not is_banned(source, "executors/process.py")
    assert not is_banned(source, "worker/stack/child.py")


@pytest.mark.parametrize("source", READS)
def test_the_environment_is_read_in_one_module(source: str) -> None:
    assert is_banned(source, "worker/process.py")
    assert is_banned(source, "memory/settings.py")
