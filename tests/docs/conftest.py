"""One local stack, started as a person starts it, for all the pages."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.packaging.programs import ROOT, inherited


@dataclass(frozen=True)
class Shell:
    """Runs command lines in the folder where the stack was started."""

    folder: Path
    environment: dict[str, str]

    def run(self, line: str) -> tuple[int, str]:
        """Return the exit status and all that was printed."""
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell beside a running `poimen up`."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "examples").symlink_to(ROOT / "examples")
    programs = Path(sys.executable).parent
    environment = inherited(PATH=f"{programs}{os.pathsep}{inherited()['PATH']}", HOME=str(folder))
    with (folder / "up.log").open("w") as log:
        stack = subprocess.Popen(
            [str(programs / "poimen"), "up", "--json"],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert stack.stdout
            line = stack.stdout.readline()
            assert line, (folder / "up.log").read_text()
            address = json.loads(line)["temporal_address"]
            yield Shell(folder, {**environment, "address": address})
        finally:
            stack.send_signal(signal.SIGTERM)
            assert stack.wait(timeout=60) == 0
            assert stack.stdout
            stack.stdout.close()
