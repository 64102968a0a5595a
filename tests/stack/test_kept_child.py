import asyncio
import sys
from pathlib import Path

import pytest

from worker.stack.child import Child, ChildError, ChildSpec
from worker.stack.kept import MOST_STARTS, kept_running


def spec(script: str, folder: Path) -> ChildSpec:
    return ChildSpec("the worker", [sys.executable, "-c", script], folder / "worker.log", grace_seconds=0.2)


async def at_once(_child: Child) -> None:
    return


async def after_its_end(child: Child) -> None:
    await child.ready_when(asyncio.Event().wait, timeout_seconds=30)


async def test_a_child_that_dies_again_and_again_is_given_up(tmp_path: Path) -> None:
    said: list[str] = []
    async with kept_running(spec("raise SystemExit(3)", tmp_path), at_once, said.append) as keeping:
        await asyncio.wait({keeping})
        died = f"The worker died: exit code 3; its log is {tmp_path / 'worker.log'}."
        assert said == [f"{died} It is started again."] * (MOST_STARTS - 1)
        given_up = keeping.exception()
    assert isinstance(given_up, ChildError)
    assert str(given_up) == f"{died} It was started {MOST_STARTS} times in a row, and is given up."


async def test_a_child_that_never_was_ready_is_not_started_again(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(ChildError, match="the worker ended with exit code 3"):
        async with kept_running(spec("raise SystemExit(3)", tmp_path), after_its_end, said.append):
            raise AssertionError
    assert said == []


async def test_a_kept_child_ends_with_the_block(tmp_path: Path) -> None:
    children: list[Child] = []

    async def noted(child: Child) -> None:
        children.append(child)

    async with kept_running(spec("import time; time.sleep(600)", tmp_path), noted, print) as keeping:
        assert not keeping.done()
    assert [child.exited.done() for child in children] == [True]


async def test_whatever_ends_the_keeping_is_told_as_the_child_being_given_up(tmp_path: Path) -> None:
    def full(_sentence: str) -> None:
        raise OSError("No space left on device")

    async with kept_running(spec("raise SystemExit(3)", tmp_path), at_once, full) as keeping:
        await asyncio.wait({keeping})
        ended = keeping.exception()
    assert isinstance(ended, ChildError)
    assert str(ended) == "Keeping the worker running failed: OSError: No space left on device."
