"""The local stack as the command line uses it: started with a worker that fits it, and found again when it runs."""

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from memory.postgres import migrate
from memory.stores import starter_notes
from worker.options import PREFIX
from worker.settings import Settings, environment
from worker.stack.state import read_holder
from worker.stack.up import Addresses, Progress, local_stack

STATE_FOLDER: Final = Path(".poimen")
# Any of these says that another Temporal or database is meant than the local stack's.
_ELSEWHERE: Final = (
    "TEMPORAL_ADDRESS",
    "TEMPORAL_PROFILE",
    "TEMPORAL_CONFIG_FILE",
    PREFIX + "POSTGRES_DSN",
    PREFIX + "POSTGRES_DSN_FILE",
)


@contextlib.asynccontextmanager
async def running_stack(
    state: Path,
    *,
    workspaces: Sequence[Path],
    progress: Progress = lambda _name, _detail, _seconds: None,
    warn: Callable[[str], None] = lambda _sentence: None,
    variables: Mapping[str, str] | None = None,
) -> AsyncIterator[Addresses]:
    """Run the local stack, migrated and with a worker of both roles, for the length of a block.

    `workspaces` are the roots below which commands may run; `variables` are more settings of the worker, by their
    whole names (``POIMEN_COMMAND_PATH``). Raises StackError.
    """

    def of_worker(addresses: Addresses) -> Mapping[str, str]:
        return {**_of_stack(addresses), **_of_worker(addresses, workspaces), **(variables or {})}

    async with local_stack(
        state,
        vault_source=starter_notes(),
        worker_environment=of_worker,
        migrate=migrate,
        progress=progress,
        warn=warn,
    ) as addresses:
        yield addresses


def find_running(start: Path | None = None) -> Addresses | None:
    """Return where the stack runs whose state folder is in this folder or the nearest one above it."""
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        holder = read_holder(folder / STATE_FOLDER) if (folder / STATE_FOLDER).is_dir() else None
        if holder is not None and holder.is_alive() and holder.addresses:
            return _addresses(holder.addresses)
    return None


def load_settings() -> Settings:
    """Return the settings of a command: of the environment, or else of the local stack that runs here."""
    variables = environment()
    named = [name for name in _ELSEWHERE if variables.get(name)]
    found = None if named else find_running()
    return Settings.load({**variables, **(_of_stack(found) if found else {})})


def settings_of(addresses: Addresses) -> Settings:
    """Return the settings that lead to a running stack."""
    return Settings.load({**environment(), **_of_stack(addresses)})


def _of_stack(addresses: Addresses) -> dict[str, str]:
    return {
        **addresses.environment(),
        PREFIX + "POSTGRES_OWNER_DSN": addresses.postgres_owner_dsn,
        PREFIX + "UI_URL": addresses.ui_url,
        # An empty variable is an absent one: what the caller's environment says about these is about another place.
        **{PREFIX + name: "" for name in ("POSTGRES_DSN_FILE", "POSTGRES_OWNER_DSN_FILE", "MASKING_KEY")},
    }


def _of_worker(addresses: Addresses, workspaces: Sequence[Path]) -> dict[str, str]:
    roots = ":".join(str(root.absolute()) for root in workspaces)
    return {
        PREFIX + "POSTGRES_OWNER_DSN": "",
        PREFIX + "STATE": str(Path(addresses.state) / "executor"),
        PREFIX + "WORKSPACES": roots,
    }


def _addresses(record: Mapping[str, object]) -> Addresses | None:
    names = {field.name for field in dataclasses.fields(Addresses)}
    if names - record.keys():
        return None  # of another version
    return Addresses(**{name: record[name] for name in names})  # type: ignore[arg-type]  # because JSON has no types
