"""The one place where the driver's errors become the memory's own."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg_pool import PoolTimeout, TooManyRequests

from memory.errors import PoimenError, Rejected, SchemaDiffers, StoreUnavailable, TooLarge
from memory.postgres.connecting import why_not_connected

# SQLSTATE classes and codes after which the same call may soon succeed: connection lost, no such role or database for
# now, transaction undone or in a wrong state, resources, operator's action, system error, a plan of before a
# migration, lock or statement time-out.
_SOON = ("08", "25", "28", "3D", "40", "53", "57", "58", "XX", "55P03", "0A000", "26000")
# The value itself is refused, and would be by every version of the schema.
_SIZE = ("54", "22001")
_VALUE = ("22", "23505")


@contextmanager
def translated() -> Iterator[None]:
    """Turn any error of the driver raised inside the block into a PoimenError, with the driver's error as cause."""
    try:
        yield
    except psycopg.Error as error:
        raise _translate(error) from error
    except UnicodeEncodeError:
        # The driver's own, for a lone surrogate in a parameter. Its text quotes the value, hence no cause.
        raise Rejected("Postgres cannot store this text.") from None


def _translate(error: psycopg.Error) -> PoimenError:
    state = error.sqlstate
    if isinstance(error, PoolTimeout | TooManyRequests):
        return StoreUnavailable("No connection to Postgres was free in time.")
    if state is None:
        return _without_state(error)
    if state.startswith(_SOON):
        return StoreUnavailable(f"Postgres could not do it now (SQLSTATE {state}).")
    if state.startswith(_SIZE):
        return TooLarge(f"A value is larger than Postgres can store (SQLSTATE {state}).")
    if state.startswith(_VALUE):
        return Rejected(f"Postgres refused it (SQLSTATE {state}).")
    # A missing table, column or grant, a column or a constraint that this program does not know: whatever no list has
    # is taken for one, for a record that is given up is lost, and one that waits is not.
    return SchemaDiffers(
        f"The database has other tables or grants than this program needs (SQLSTATE {state}); run poimen migrate."
    )


def _without_state(error: psycopg.Error) -> PoimenError:
    if isinstance(error, psycopg.DataError):
        return Rejected("Postgres cannot store this value.")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreUnavailable(why_not_connected(error).value)
    return SchemaDiffers("The driver does not take what this program sends; run another version.")
