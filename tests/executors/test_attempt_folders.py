import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from executors import attempt_folder as folders
from executors.attempt_folder import attempt_folder, clear_abandoned


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def marks(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    # So that an endless search for a free folder ends the test instead of the disk.
    monkeypatch.setattr(folders, "new_mark", iter(names).__next__)


def test_a_folder_that_cannot_be_locked_is_an_error_and_is_not_left(tmp_path: Path, monkeypatch) -> None:
    marks(monkeypatch, "one", "two")
    with no_descriptors_left(), pytest.raises(OSError, match="Too many open files"), attempt_folder(tmp_path):
        pass
    assert not list((tmp_path / "attempts").iterdir())


def test_a_file_system_without_locks_is_an_error_and_keeps_no_folder_and_no_descriptor(
    tmp_path: Path, monkeypatch
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    marks(monkeypatch, "one", "two")
    monkeypatch.setattr(folders.fcntl, "flock", refuse)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError, match="No locks available"), attempt_folder(tmp_path):
        pass
    assert not list((tmp_path / "attempts").iterdir())
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_folder_that_another_worker_took_is_left_to_it(tmp_path: Path, monkeypatch) -> None:
    taken: list[int] = []

    def take(folder: int, operation: int) -> None:
        if not taken:
            taken.append(os.open(tmp_path / "attempts" / "one", os.O_RDONLY))
            lock(taken[0], operation)
        lock(folder, operation)

    lock = folders.fcntl.flock
    marks(monkeypatch, "one", "two")
    monkeypatch.setattr(folders.fcntl, "flock", take)
    with attempt_folder(tmp_path) as folder:
        assert folder.path.name == "two"
    os.close(taken[0])


def test_folders_that_cannot_be_locked_are_not_cleared_away(tmp_path: Path) -> None:
    left = tmp_path / "attempts" / "left"
    left.mkdir(parents=True)
    with no_descriptors_left():
        assert not folders._clear(left)
    assert left.exists()
    assert clear_abandoned(tmp_path) == 1
