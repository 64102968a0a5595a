"""The stack that a demonstration runs on: the one that runs here already, or one of its own."""

import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from worker.cli.up import progress_lines
from worker.exits import DEPENDENCY_DOWN, ExitError
from worker.found_stack import running_at
from worker.local import running_stack
from worker.stack.state import StackInUseError
from worker.stack.up import Addresses


@contextlib.asynccontextmanager
async def demo_stack(state: Path, root: Path, *, opensearch: bool = False) -> AsyncIterator[Addresses]:
    """Lead to a stack for the length of a block: the one that holds the state folder, which stays, or a new one.

    `root` is the folder below which commands of a new one may run. Raises ExitError, StackError.
    """
    kept = running_at(state)
    if kept is not None:
        if opensearch and not kept.opensearch_url:
            raise ExitError(
                f"The stack of process {kept.pid} runs without OpenSearch; end it first (poimen down).", DEPENDENCY_DOWN
            )
        say(f"The stack of process {kept.pid} runs here already ({kept.ui_url}): this uses it, and leaves it running.")
        yield kept
        return
    try:
        progress = progress_lines(2, 4 + opensearch)
        async with running_stack(
            state, workspaces=[root], opensearch=opensearch, progress=progress, warn=say
        ) as addresses:
            yield addresses
    except StackInUseError as error:
        raise ExitError(
            f"{error} Wait until it is up, or end it (poimen down), and try again.", DEPENDENCY_DOWN
        ) from None


def is_own(addresses: Addresses) -> bool:
    """Tell whether the stack is this process's, and ends with it."""
    return addresses.pid == os.getpid()


def say(sentence: str) -> None:
    """Print a sentence on standard error, at once."""
    print(sentence, file=sys.stderr, flush=True)
