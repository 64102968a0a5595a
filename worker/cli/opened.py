"""Memory as a command uses it: opened for one call, by a person."""

import contextlib
import getpass
import uuid
from collections.abc import AsyncIterator

from memory.journal import Origin, Provenance
from memory.stores import Caller, Stores, build_stores
from worker import logs
from worker.exits import DEPENDENCY_DOWN, ExitError
from worker.found_stack import load_settings, why_nowhere
from worker.settings import Settings

DEADLINE_SECONDS = 10.0


@contextlib.asynccontextmanager
async def opened_stores(settings: Settings | None = None) -> AsyncIterator[Stores]:
    """Open the stores the settings name for the length of a block. Raises SettingsError, ExitError."""
    settings = settings or load_settings()
    nowhere = why_nowhere(settings)
    if nowhere is not None:
        raise ExitError(nowhere, DEPENDENCY_DOWN)
    stores = build_stores(settings.memory())
    # The answer is on standard output; the pool's own complaints would only repeat what the error says.
    logs.configure("text", "error")
    await stores.open()
    try:
        yield stores
    finally:
        await stores.close()


def operator(stores: Stores, tenant: str | None) -> Caller:
    """Return the person at this terminal as a caller. Raises TenantRefused."""
    provenance = Provenance(key=f"cli:{uuid.uuid4()}", origin=Origin.OPERATOR, principal=_user())
    return Caller(stores.settings.tenant_of(tenant), provenance, DEADLINE_SECONDS)


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return None
