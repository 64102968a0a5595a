"""A state folder of another user is believed by nobody, and crashes no command."""

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from worker.found_stack import STATE_FOLDER, find_running
from worker.stack.down import stop_holder
from worker.stack.state import Holder, StackError, StateFolder, hold
from worker.stack.up import Addresses


def addresses(port: int) -> Addresses:
    texts = {field.name: f"{field.name} {port}" for field in dataclasses.fields(Addresses)}
    return Addresses(**{**texts, "pid": os.getpid()})  # type: ignore[arg-type]  # because pid alone is a number


async def leave_a_lock(folder: Path, port: int) -> Path:
    """Write the lock of a stack that runs in this process, as far as anybody can tell."""
    state = StateFolder.create(folder / STATE_FOLDER)
    async with hold(state) as lock:
        lock.publish(dataclasses.replace(Holder.current(), addresses=dataclasses.asdict(addresses(port))))
        content = (state.root / "lock").read_bytes()
    (state.root / "lock").write_bytes(content)
    return state.root / "lock"


def give_away(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process see one file, and what is opened of it, as another user's."""
    real, inode = os.fstat, lock.stat().st_ino

    def seen(descriptor: int) -> os.stat_result:
        status = real(descriptor)
        if status.st_ino != inode:
            return status
        return os.stat_result([*status[:4], os.geteuid() + 1, *status[5:]])

    monkeypatch.setattr(os, "fstat", seen)


@pytest.fixture
def closed_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that this process may not look into, not even as root."""
    folder = tmp_path / "closed"
    (folder / STATE_FOLDER).mkdir(parents=True)
    folder.chmod(0o000)
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(65_534)
    yield folder
    if was_root:
        os.seteuid(0)
    folder.chmod(0o700)


async def test_ones_own_stack_is_found_from_below(tmp_path: Path) -> None:
    await leave_a_lock(tmp_path, 1)
    (tmp_path / "a/b").mkdir(parents=True)
    assert find_running(tmp_path / "a/b") == addresses(1)


async def test_a_strangers_stack_is_passed_over_for_ones_own_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await leave_a_lock(tmp_path, 1)
    (tmp_path / "shared").mkdir()
    give_away(await leave_a_lock(tmp_path / "shared", 2), monkeypatch)
    assert find_running(tmp_path / "shared") == addresses(1)


def test_a_folder_that_may_not_be_looked_into_has_no_stack(closed_folder: Path) -> None:
    assert find_running(closed_folder) is None


def test_a_pipe_in_place_of_the_lock_keeps_nobody_waiting(tmp_path: Path) -> None:
    (tmp_path / STATE_FOLDER).mkdir()
    os.mkfifo(tmp_path / STATE_FOLDER / "lock")
    assert find_running(tmp_path) is None


async def test_a_strangers_stack_is_neither_ended_nor_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_away(await leave_a_lock(tmp_path, 1), monkeypatch)
    with pytest.raises(StackError, match="belongs to another user"):
        await stop_holder(tmp_path / STATE_FOLDER)
    with pytest.raises(StackError, match="belongs to another user"):
        async with hold(StateFolder.at(tmp_path / STATE_FOLDER)):
            raise AssertionError


def test_a_folder_that_may_not_be_written_to_is_refused_in_a_sentence(closed_folder: Path) -> None:
    with pytest.raises(StackError, match="cannot be made"):
        StateFolder.create(closed_folder / "state")
