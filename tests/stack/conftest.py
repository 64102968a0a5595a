"""Stacks as processes of their own, so that a test can kill them."""

import asyncio
import contextlib
import json
import os
import select
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest_asyncio

PROGRAM = Path(__file__).with_name("stack_program.py")
POLLER = Path(__file__).with_name("queue_poller.py")


@dataclass
class StackProcess:
    """A started stack: `addresses` is its JSON line, or None when it ended before it was ready."""

    process: asyncio.subprocess.Process
    addresses: dict[str, Any] | None
    said: str = ""
    pids: dict[int, str] = field(default_factory=dict)

    def descendants(self) -> dict[int, str]:
        """Return the process ids below this one with their command names."""
        return {pid: name for pid, (name, _) in below(self.process.pid).items()}

    async def end(self) -> int:
        """Ask it to end, and return its exit code."""
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        _, err = await self.process.communicate()
        self.said += err.decode()
        return int(self.process.returncode or 0)

    async def kill(self) -> None:
        """SIGKILL it, alone."""
        self.process.kill()
        await self.process.wait()


def below(pid: int) -> dict[int, tuple[str, int]]:
    """Return every descendant of a process: name and parent."""
    parents: dict[int, tuple[str, int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                head, _, rest = (folder / "stat").read_text().rpartition(")")
                parents[int(folder.name)] = (head.partition("(")[2], int(rest.split()[1]))
    found: dict[int, tuple[str, int]] = {}
    frontier = {pid}
    while frontier:
        frontier = {child for child, (_, parent) in parents.items() if parent in frontier}
        found.update({child: parents[child] for child in frontier})
    return found


def wait_until_gone(pids: Mapping[int, str], seconds: float) -> list[str]:
    """Wait for processes that are no children of ours; return those still there at the end."""
    left = []
    for pid, name in pids.items():
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        if not select.select([descriptor], [], [], seconds)[0]:
            left.append(f"{pid} {name}")
        os.close(descriptor)
    return left


def wait_for_path(path: Path, seconds: float = 30) -> None:
    """Return as soon as a path exists."""
    give_up_at = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < give_up_at, f"{path} did not appear"
        time.sleep(0.01)


@pytest_asyncio.fixture(loop_scope="session")
async def start_stack() -> AsyncIterator[Callable[..., Awaitable[StackProcess]]]:
    """A factory: `await start_stack(state_dir, worker=False, python=..., cwd=..., **process_options)`."""
    started: list[StackProcess] = []

    async def start(
        state: Path | str, *, worker: bool = False, python: str = sys.executable, **options: Any
    ) -> StackProcess:
        argv = [python, str(PROGRAM), str(state), *([str(POLLER)] if worker else [])]
        process = await asyncio.create_subprocess_exec(
            *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, **options
        )
        assert process.stdout is not None
        line = await process.stdout.readline()
        stack = StackProcess(process, json.loads(line) if line else None)
        if not line:
            await stack.end()
        started.append(stack)
        return stack

    yield start
    for stack in started:
        if stack.process.returncode is None:
            await stack.end()
