"""Why no connection to Postgres can be had: a sentence without host, user or secret."""

import re
from enum import StrEnum
from typing import Final, Self

from psycopg import Error, OperationalError, ProgrammingError

# libpq tells no SQLSTATE of a connection that was not made, so its class is read from the text: 28 and 3D. A server of
# another language is still known to have answered, by the two blanks that libpq puts after a severity.
_CREDENTIALS: Final = re.compile(
    r"authentication failed|role \".*\" does not exist|is not permitted to log in|no pg_hba\.conf entry|"
    r"pg_hba\.conf rejects"
)
_DATABASE: Final = re.compile(r"database \".*\" does not exist")
_SERVER_SAID: Final = ":  "


class Failure(StrEnum):
    """What is wrong, as a sentence for people."""

    NETWORK = "Postgres cannot be reached."
    REFUSAL = "Postgres answers, and refuses the connection."
    NO_PASSWORD = "Postgres asks for a password, and none is set for this user."  # noqa: S105  it is a sentence
    CREDENTIALS = "Postgres refuses the user or its password."
    DATABASE = "Postgres has no database of the name that is set."
    SETTINGS = "The connection string of Postgres cannot be read."


class NotConnected(OperationalError):
    """No connection can be had, for a reason that an earlier try has shown."""

    failure = Failure.NETWORK

    @classmethod
    def because_of(cls, failure: Failure) -> Self:
        """Make the error for a failure."""
        error = cls(failure.value)
        error.failure = failure
        return error


def why_not_connected(error: Error) -> Failure:
    """Return what an error of connecting means."""
    if isinstance(error, NotConnected):
        return error.failure
    if isinstance(error, ProgrammingError):
        return Failure.SETTINGS
    if error.pgconn is not None and error.pgconn.needs_password:
        return Failure.NO_PASSWORD
    _, answered, said = str(error).partition(_SERVER_SAID)
    if not answered:
        return Failure.NETWORK
    if _CREDENTIALS.search(said):
        return Failure.CREDENTIALS
    return Failure.DATABASE if _DATABASE.search(said) else Failure.REFUSAL
