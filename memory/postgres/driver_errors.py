"""The one place where the driver's errors become the memory's own."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg_pool import PoolTimeout, TooManyRequests

from memory.errors import PoimenError, Rejected, SchemaMismatch, StoreUnavailable, TooLarge
from memory.postgres.connecting import why_not_connected

# SQLSTATE classes and codes after which the same call may succeed: connection lost, resources, operator's action,
# system error, serialisation, deadlock, lock or statement time-out, read-only standby after a failover.
_RETRYABLE = ("08", "53", "57", "58", "XX", "40001", "40P01", "55P03", "25006", "25P03", "25P04")
# The program and the schema disagree: a table, column, function or schema is missing.
_SCHEMA = ("42P01", "42703", "42883", "3F000", "42704")
_SIZE = ("54", "22001")


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
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return StoreUnavailable(why_not_connected(error).value)
        return Rejected("Postgres cannot store this value.")
    if state.startswith(_RETRYABLE):
        return StoreUnavailable(f"Postgres could not do it now (SQLSTATE {state}).")
    if state.startswith(_SCHEMA):
        return SchemaMismatch(f"The database has another schema than this program (SQLSTATE {state}); migrate it.")
    if state.startswith(_SIZE):
        return TooLarge(f"A value is larger than Postgres can store (SQLSTATE {state}).")
    return Rejected(f"Postgres refused it (SQLSTATE {state}).")
