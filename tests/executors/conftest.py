import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from executors.settings import ExecutorSettings
from poimen.contracts.execution import RunCommand


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def settings(tmp_path: Path, workspace: Path) -> ExecutorSettings:
    return ExecutorSettings(
        host="here",
        queue="here-commands",
        state_dir=tmp_path / "state",
        workspace_roots=(workspace,),
        base_environment={"PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"},
    )


@pytest.fixture
def command() -> Callable[..., RunCommand]:
    def make(*argv: str, **fields: Any) -> RunCommand:
        return RunCommand(argv=argv, **({"run": "run-1", "step": "serve", "timeout_seconds": 60.0} | fields))

    return make


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def _wait(condition: Callable[[], bool], seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def is_running() -> Callable[[int], bool]:
    return _is_running


@pytest.fixture
def is_gone() -> Callable[[int], bool]:
    """Tell whether a process is gone or goes within seconds."""
    return lambda pid: _wait(lambda: not _is_running(pid))


@pytest.fixture
def read_pid() -> Callable[[Path], int]:
    """Wait for a file with a pid and return the pid."""

    def read(path: Path) -> int:
        assert _wait(lambda: path.exists() and path.read_text().endswith("\n")), f"{path.name} was not written"
        return int(path.read_text())

    return read
