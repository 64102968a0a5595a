"""The starting state of a run: a fresh copy of the example, and what earlier runs would have left behind."""

import asyncio
import contextlib
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from worker.stack.child import ChildSpec, run_once, running

EXAMPLE = Path(__file__).parents[2] / "examples" / "flaky-release"
_READY_SECONDS = 20.0
# A child has no folder of its own to start in.
_IN_FOLDER = ("/bin/sh", "-c", 'cd "$0" && exec "$@"')
# What runs beside the steps: its name, its program, and the file where it says its port.
_SERVICES = (
    ("an earlier preview", ("steps/serve.py", "--keep"), "ports/preview"),
    ("the registry", ("tools/registry.py",), "ports/registry"),
)


@contextlib.asynccontextmanager
async def starting_state(workspace: Path, log: Path) -> AsyncIterator[None]:
    """Set a workspace up for the length of a block; what runs beside it ends with the block, or with this process.

    An earlier preview holds its port, a lock is left by a process that is gone, the registry is busy.
    """
    shutil.rmtree(workspace, ignore_errors=True)
    shutil.copytree(EXAMPLE, workspace, ignore=shutil.ignore_patterns("__pycache__"))
    await run_once(_argv(workspace, ("steps/unlock.py", "--die")))
    async with contextlib.AsyncExitStack() as services:
        for name, program, port_file in _SERVICES:
            child = await services.enter_async_context(running(ChildSpec(name, _argv(workspace, program), log)))
            await child.ready_when(_there(workspace / port_file), _READY_SECONDS)
        yield


def _argv(workspace: Path, program: Sequence[str]) -> tuple[str, ...]:
    return (*_IN_FOLDER, str(workspace), sys.executable, *program)


def _there(file: Path) -> Callable[[], Awaitable[bool]]:
    async def is_there() -> bool:
        return await asyncio.to_thread(file.exists)

    return is_there
