"""The local stack as the command line starts it: migrated, and with a worker that fits it."""

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

from memory.postgres import migrate
from memory.stores import starter_notes
from worker.found_stack import settings_of, stack_variables
from worker.options import PREFIX
from worker.settings import environment
from worker.stack.up import Addresses, Progress, WithOpenSearch, local_stack

__all__ = ["running_stack", "settings_of"]


@contextlib.asynccontextmanager
async def running_stack(
    state: Path,
    *,
    workspaces: Sequence[Path],
    opensearch: bool = False,
    progress: Progress = lambda _name, _detail, _seconds: None,
    warn: Callable[[str], None] = lambda _sentence: None,
) -> AsyncIterator[Addresses]:
    """Run the local stack, migrated and with a worker of both roles, for the length of a block.

    `workspaces` are the roots below which commands may run. With `opensearch` the worker looks knowledge up there.
    Raises StackError.
    """

    def of_worker(addresses: Addresses) -> Mapping[str, str]:
        return {**stack_variables(addresses), **_of_worker(addresses, workspaces)}

    async with local_stack(
        state,
        vault_source=starter_notes(),
        worker_environment=of_worker,
        migrate=migrate,
        opensearch=_with_opensearch() if opensearch else None,
        progress=progress,
        warn=warn,
    ) as addresses:
        yield addresses


def _of_worker(addresses: Addresses, workspaces: Sequence[Path]) -> dict[str, str]:
    roots = ":".join(str(root.absolute()) for root in workspaces)
    return {
        PREFIX + "POSTGRES_OWNER_DSN": "",
        PREFIX + "STATE": str(Path(addresses.state) / "executor"),
        PREFIX + "WORKSPACES": roots,
        PREFIX + "COMMAND_PATH": environment().get(PREFIX + "COMMAND_PATH") or _command_path(),
    }


def _with_opensearch() -> WithOpenSearch:
    named = environment().get(PREFIX + "CACHE")
    return WithOpenSearch(Path(named).expanduser().absolute() if named else None)


def _command_path() -> str:
    """Return the caller's PATH, with this interpreter as `python`: a command finds what a person here finds."""
    own = str(Path(sys.executable).parent)
    return os.pathsep.join(part for part in (own, environment().get("PATH", "")) if part)
