"""The folder of one attempt: its context, report, checkpoint and the output that is being written.

A lock marks the folders in use, so that what a killed worker left can be told apart and cleared away.
"""

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from executors.process import mark_text, new_mark
from executors.stray import end_marked


@dataclass(frozen=True)
class AttemptFolder:
    """The files of one attempt. `mark` is carried by all its processes."""

    path: Path
    mark: str

    @property
    def context(self) -> Path:
        return self.path / "context.txt"

    @property
    def context_json(self) -> Path:
        return self.path / "context.json"

    @property
    def prompt(self) -> Path:
        return self.path / "prompt"

    @property
    def report(self) -> Path:
        return self.path / "result.json"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @property
    def output(self) -> Path:
        return self.path / "output"


@contextmanager
def attempt_folder(state_dir: Path) -> Iterator[AttemptFolder]:
    """Make the folder of one attempt and remove it in the end. Raises OSError."""
    path, lock = _make_locked(_attempts(state_dir))
    try:
        yield AttemptFolder(path, path.name)
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def clear_abandoned(state_dir: Path) -> int:
    """End the processes and remove the folders of attempts whose worker is gone; return how many attempts.

    Called once at the start of a worker, before it takes its first attempt.
    """
    folders = [path for path in _attempts(state_dir).glob("*") if path.is_dir()]
    return sum(_clear(path) for path in folders)


def read_file(path: Path, limit: int) -> bytes | None:
    """Return a file that a command may have written, at most `limit` + 1 bytes of it, or None if there is none.

    Raises OSError for anything but a regular file: a pipe in its place would never end.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("not a regular file")
        return file.read(limit + 1)


def _make_locked(attempts: Path) -> tuple[Path, int]:
    while True:
        path = attempts / new_mark()
        path.mkdir(mode=0o700, parents=True)
        try:
            lock = _lock(path)
        except OSError:
            path.rmdir()
            raise
        if lock is not None and path.exists():
            return path, lock
        # A worker that starts just now took the folder for an abandoned one before it was locked.
        if lock is not None:
            os.close(lock)


def _attempts(state_dir: Path) -> Path:
    return state_dir / "attempts"


def _lock(path: Path) -> int | None:
    """Lock a folder for as long as the descriptor is open; None when another process has it or it is gone.

    Raises OSError when folders cannot be locked here at all, now or ever.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _clear(path: Path) -> bool:
    try:
        lock = _lock(path)
    except OSError:
        lock = None  # it may be in use; the first command tells what is wrong
    if lock is None:
        return False
    end_marked(mark_text(path.name).encode())
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)
    return True
