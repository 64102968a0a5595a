"""What a killed PostgreSQL left running is waited for before another server takes its data."""

import asyncio
import sys
from pathlib import Path

import pytest

from worker.stack import postgres
from worker.stack.state import StackError

# No process has it: the largest number on Linux is below.
NOBODY = 2**22 + 1


@pytest.fixture
def pid_file(tmp_path: Path) -> Path:
    """The pid file of a server that was killed."""
    file = tmp_path / "postmaster.pid"
    file.write_text(f"{NOBODY}\n{tmp_path}\n")
    return file


async def _left(data: Path) -> asyncio.subprocess.Process:
    """Start what ends with its input, as a session of the killed server ends with its statement."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import sys; sys.stdin.read()", cwd=data, stdin=asyncio.subprocess.PIPE
    )


def _kept(file: Path) -> bool:
    return file.exists()


async def test_the_pid_file_stays_until_the_last_session_of_the_killed_server_ended(pid_file: Path) -> None:
    session = await _left(pid_file.parent)
    dropping = asyncio.create_task(postgres._drop_stale_pid_file(pid_file.parent))
    await asyncio.wait({dropping}, timeout=5 * postgres._LOOK_SECONDS)
    assert not dropping.done()
    assert _kept(pid_file)
    await session.communicate(b"")
    await dropping
    assert not _kept(pid_file)


async def test_a_session_that_does_not_end_is_named(pid_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_LEFT_SECONDS", 0.0)
    session = await _left(pid_file.parent)
    with pytest.raises(StackError, match=rf"Process {session.pid} of a PostgreSQL that was killed still works on"):
        await postgres._drop_stale_pid_file(pid_file.parent)
    await session.communicate(b"")
    assert _kept(pid_file)
