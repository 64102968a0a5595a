"""Find the local stack that runs here, and the settings that lead to it."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from worker.options import PREFIX
from worker.settings import Settings, environment
from worker.stack.state import Holder, StrangersFolderError, read_holder
from worker.stack.up import Addresses

STATE_FOLDER: Final = Path(".poimen")
# Any of these says that another Temporal or database is meant than the local stack's.
_ELSEWHERE: Final = (
    "TEMPORAL_ADDRESS",
    "TEMPORAL_PROFILE",
    "TEMPORAL_CONFIG_FILE",
    PREFIX + "POSTGRES_DSN",
    PREFIX + "POSTGRES_DSN_FILE",
)

NOTHING_RUNS: Final = (
    "Nothing runs here: no local stack in this folder or one above it, and no other is set. "
    "Start one with `make up` (or `poimen up`). To use another, go to its folder, or set TEMPORAL_ADDRESS, "
    f"{PREFIX}POSTGRES_DSN and {PREFIX}MASKING_KEY."
)


def find_running(start: Path | None = None) -> Addresses | None:
    """Return where the stack runs whose state folder is in this folder or the nearest one above it.

    One of another user, who could lead our commands anywhere, counts as none.
    """
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        try:
            holder = _ready_holder(folder / STATE_FOLDER)
        except StrangersFolderError:
            continue
        if holder is not None:
            return _addresses(holder.addresses)
    return None


def running_at(state: Path) -> Addresses | None:
    """Return where the stack of a state folder runs; None when none does, or it is starting. Raises StackError."""
    holder = _ready_holder(state.absolute())
    return _addresses(holder.addresses) if holder is not None else None


def _ready_holder(state: Path) -> Holder | None:
    holder = read_holder(state)
    return holder if holder is not None and holder.is_alive() and holder.addresses else None


def load_settings() -> Settings:
    """Return the settings of a command: of the environment, or else of the local stack that runs here."""
    variables = environment()
    found = find_running()
    if found is not None and _means_elsewhere(variables, found):
        found = None
    return Settings.load({**variables, **(stack_variables(found) if found else {})})


def why_nothing_runs(settings: Settings) -> str | None:
    """Say that nothing runs here, and how to start, where no variable leads elsewhere; else None."""
    return None if settings.values["postgres_dsn"] or _leading(settings) else NOTHING_RUNS


def why_nowhere(settings: Settings) -> str | None:
    """Say why a command that has no database has none, and how to get one; None when that needs no saying."""
    if settings.values["postgres_dsn"]:
        return None
    leading = _leading(settings)
    if not leading:
        return NOTHING_RUNS
    if find_running() is None:
        return None
    return (
        f"{leading[0]} leads away from the stack that runs here, and {PREFIX}POSTGRES_DSN, which then names memory's "
        f"database, is not set. Set it, or unset {leading[0]}."
    )


def _leading(settings: Settings) -> list[str]:
    return [name for name in _ELSEWHERE if settings.variables.get(name)]


def _means_elsewhere(variables: Mapping[str, str], found: Addresses) -> bool:
    # An address that is the running stack's own was exported for the `temporal` CLI, not to lead away from it.
    own = found.environment()
    return any(variables[name] != own.get(name) for name in _ELSEWHERE if variables.get(name))


def settings_of(addresses: Addresses) -> Settings:
    """Return the settings that lead to a running stack."""
    return Settings.load({**environment(), **stack_variables(addresses)})


def stack_variables(addresses: Addresses) -> dict[str, str]:
    """Return the variables that lead a program to a running stack."""
    elsewhere = ["POSTGRES_DSN_FILE", "POSTGRES_OWNER_DSN_FILE", "MASKING_KEY"]
    if addresses.opensearch_url:
        elsewhere += ["OPENSEARCH_USER", "OPENSEARCH_PASSWORD", "OPENSEARCH_PASSWORD_FILE", "OPENSEARCH_CA"]
    return {
        **addresses.environment(),
        PREFIX + "POSTGRES_OWNER_DSN": addresses.postgres_owner_dsn,
        PREFIX + "UI_URL": addresses.ui_url,
        # An empty variable is an absent one: what the caller's environment says about these is about another place.
        **{PREFIX + name: "" for name in elsewhere},
    }


def _addresses(record: Mapping[str, object]) -> Addresses | None:
    names = {field.name for field in dataclasses.fields(Addresses)}
    if names - record.keys():
        return None  # of another version
    return Addresses(**{name: record[name] for name in names})  # type: ignore[arg-type]  # because JSON has no types
