"""Everything that the memory refuses or cannot do.

::

    PoimenError
    ├── FinalError           asking again changes nothing
    │   ├── NotFound
    │   ├── Conflict         carries the actual revision, when there is one
    │   ├── Rejected
    │   ├── TooLarge
    │   ├── TenantRefused
    │   └── SchemaMismatch   found at start or by `poimen migrate`: no call is answered with it
    └── StoreUnavailable     asking again later may help; carries when
        └── SchemaDiffers    a roll-out or a person mends it

Input that breaks a rule of its message is `poimen.contracts.problems.InvalidInput`.

A message is a sentence of field paths, limits, counts and safe identifiers: never content, a host or a path.
"""

from typing import Final

# A migration or a grant takes somebody minutes; asking more often would only fill histories.
SCHEMA_RETRY_SECONDS: Final = 30.0


class PoimenError(Exception):
    """The root of the tree; its text may be shown to a person."""


class FinalError(PoimenError):
    """Asking again changes nothing."""


class NotFound(FinalError):
    """What was asked for is not on record."""


class Conflict(FinalError):
    """Something else is already on record; `actual_revision` says which revision, if the thing has revisions."""

    def __init__(self, message: str, *, actual_revision: int | None = None) -> None:
        super().__init__(message)
        self.actual_revision = actual_revision


class Rejected(FinalError):
    """A rule of the memory or of its store forbids this."""


class TooLarge(FinalError):
    """A limit on size is exceeded; the message names it."""


class TenantRefused(FinalError):
    """This worker does not serve the tenant."""


class SchemaMismatch(FinalError):
    """The database is not one that this version of the program may use; the process does not start on it."""


class StoreUnavailable(PoimenError):
    """A store is down, slow or overloaded; ask again in `retry_after_seconds`."""

    def __init__(self, message: str, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class SchemaDiffers(StoreUnavailable):
    """The database does not take what this program sends: its tables or its grants are of another version.

    Nothing is wrong with what was sent, so it is worth keeping until the two agree again.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, retry_after_seconds=SCHEMA_RETRY_SECONDS)
