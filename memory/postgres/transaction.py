"""One tenant's transaction: the only way to a statement."""

import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from psycopg import AsyncCursor
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from memory.errors import StoreUnavailable
from memory.postgres.driver_errors import translated
from memory.postgres.pool import Connection, Pool

Row = DictRow

# The server's time-outs are earlier than the client's own deadline: a server that answers at all then answers with
# its own error, and is not taken for one that is gone.
_STATEMENT_SHARE: Final = 0.9
_TRANSACTION_SHARE: Final = 0.95
_SETTINGS: Final[LiteralString] = (
    "select set_config('app.tenant', %(tenant)s, true),"
    " set_config('statement_timeout', %(statement_ms)s, true),"
    " set_config('lock_timeout', %(statement_ms)s, true),"
    " set_config('transaction_timeout', %(transaction_ms)s, true),"
    " set_config('synchronous_commit', coalesce(%(synchronous)s, current_setting('synchronous_commit')), true)"
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement and its values, to be run with others in one round trip."""

    query: LiteralString
    values: dict[str, object]


_BEGIN: Final = Statement("begin", {})
_COMMIT: Final = Statement("commit", {})


def statement(query: LiteralString, **values: object) -> Statement:
    """Name a statement with its values."""
    return Statement(query, values)


class Transaction:
    """Statements of one tenant, committed together.

    Every statement has the parameter ``%(tenant)s``; it is the transaction's and cannot be another. A round trip is
    what a statement costs, so the beginning and what is deferred travel with the next statement that is waited for.
    """

    def __init__(self, connection: Connection, tenant: str, seconds: float, *, durable: bool = True) -> None:
        self._connection = connection
        self.tenant = tenant
        self.announced = False
        self._settings = statement(
            _SETTINGS,
            statement_ms=_milliseconds(seconds * _STATEMENT_SHARE),
            transaction_ms=_milliseconds(seconds * _TRANSACTION_SHARE),
            synchronous=None if durable else "off",
        )
        self._deferred: list[Statement] = []
        self._begun = self._committed = False

    async def rows(self, query: LiteralString, **values: object) -> list[Row]:
        """Run the statement and return its rows, as dictionaries."""
        (rows,) = await self.gather(Statement(query, values))
        return rows

    async def row(self, query: LiteralString, **values: object) -> Row | None:
        """Run the statement and return its first row, or None."""
        rows = await self.rows(query, **values)
        return rows[0] if rows else None

    async def run(self, query: LiteralString, **values: object) -> int:
        """Run the statement and return how many rows it touched."""
        (cursor,) = await self._run([Statement(query, values)])
        return cursor.rowcount

    async def gather(self, *statements: Statement, last: bool = False) -> list[list[Row]]:
        """Run some statements in this order and one round trip, and return the rows of each.

        With `last` the transaction is committed in the same round trip, and nothing may follow.
        """
        cursors = await self._run(statements, last=last)
        return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]

    def defer(self, query: LiteralString, **values: object) -> None:
        """Run the statement together with the next one, or with the commit; its error is raised there."""
        self._deferred.append(Statement(query, values))

    def announce(self) -> None:
        """Wake those who follow the journal, once this is committed."""
        self.announced = True

    async def finish(self) -> None:
        """Commit what was run and what is deferred. For this package alone."""
        if not self._committed and (self._begun or self._deferred):
            await self._run([], last=True)

    async def _run(self, statements: Sequence[Statement], *, last: bool = False) -> list[AsyncCursor[DictRow]]:
        if self._committed:
            raise RuntimeError("The transaction is committed.")
        before, after = self._around(last=last)
        sending = [*before, *self._deferred, *statements, *after]
        self._deferred = []
        self._begun, self._committed = True, last
        if len(sending) == 1:
            return [await self._sent(sending[0])][: len(statements)]
        async with self._connection.pipeline():
            cursors = [await self._sent(each) for each in sending]
        end = len(sending) - len(after)
        return cursors[end - len(statements) : end]

    def _around(self, *, last: bool) -> tuple[list[Statement], list[Statement]]:
        if self._begun:
            return [], [_COMMIT] if last else []
        # What is sent in one pipeline is one transaction by itself: it needs no begin and no commit.
        return [self._settings] if last else [_BEGIN, self._settings], []

    async def _sent(self, each: Statement) -> AsyncCursor[DictRow]:
        return await self._connection.execute(each.query, {**each.values, "tenant": self.tenant})


def jsonb(value: object) -> Any:
    """Mark a list or a scalar as jsonb; a dictionary needs no mark."""
    return Jsonb(value)


@contextlib.asynccontextmanager
async def tenant_transaction(
    pool: Pool, tenant: str, *, deadline_seconds: float, durable: bool = True
) -> AsyncIterator[Transaction]:
    """Open a transaction in which only the tenant's rows exist; commit it unless the block raises.

    It ends within the deadline, whatever the server does. Raises StoreUnavailable when the server is down, too slow
    or too busy (after a lost commit the outcome is unknown: ask again under the same key), and the other errors of
    `memory.errors` for what Postgres refuses. Without `durable` the commit does not wait for the disk: a crash of the
    server may undo the last half second of such transactions, whole ones only.
    """
    if not tenant:
        raise ValueError("A transaction needs a tenant.")
    ends_at = time.monotonic() + deadline_seconds
    try:
        with translated():
            async with (
                pool.connection(deadline_seconds) as connection,
                _undone_on_error(connection),
            ):
                transaction = Transaction(connection, tenant, ends_at - time.monotonic(), durable=durable)
                yield transaction
                await transaction.finish()
    except StoreUnavailable as error:
        if time.monotonic() < ends_at:
            raise
        sentence = f"Postgres did not answer within {deadline_seconds:g} s."
        raise StoreUnavailable(sentence, retry_after_seconds=error.retry_after_seconds) from error.__cause__
    if transaction.announced:
        pool.announce()


@contextlib.asynccontextmanager
async def _undone_on_error(connection: Connection) -> AsyncIterator[None]:
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            await connection.rollback()
        raise


def _milliseconds(seconds: float) -> str:
    # 0 would mean no limit.
    return str(max(int(seconds * 1000), 1))
