"""One tenant's transaction: the only way to a statement."""

import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, LiteralString

from psycopg import AsyncCursor, sql
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from memory.errors import StoreUnavailable
from memory.postgres.driver_errors import translated
from memory.postgres.pool import Connection, Pool

Row = DictRow

# begin, tenant and time-outs in one round trip. The server's time-outs are earlier than the client's own deadline:
# a server that answers at all then answers with its own error, and is not taken for one that is gone.
_BEGIN = sql.SQL(
    "begin;"
    "select set_config('app.tenant', {tenant}, true),"
    " set_config('statement_timeout', {milliseconds}, true),"
    " set_config('lock_timeout', {milliseconds}, true),"
    " set_config('transaction_timeout', {longest}, true)"
)


class Transaction:
    """Statements of one tenant, committed together.

    Every statement has the parameter ``%(tenant)s``; it is the transaction's and cannot be another.
    """

    def __init__(self, cursor: AsyncCursor[DictRow], tenant: str) -> None:
        self._cursor = cursor
        self.tenant = tenant
        self.announced = False

    async def rows(self, query: LiteralString, **values: object) -> list[Row]:
        """Run the statement and return its rows, as dictionaries."""
        await self._cursor.execute(query, {**values, "tenant": self.tenant})
        return await self._cursor.fetchall()

    async def row(self, query: LiteralString, **values: object) -> Row | None:
        """Run the statement and return its first row, or None."""
        await self._cursor.execute(query, {**values, "tenant": self.tenant})
        return await self._cursor.fetchone()

    async def run(self, query: LiteralString, **values: object) -> int:
        """Run the statement and return how many rows it touched."""
        await self._cursor.execute(query, {**values, "tenant": self.tenant})
        return self._cursor.rowcount

    async def run_many(self, query: LiteralString, many: Iterable[Mapping[str, object]]) -> None:
        """Run the statement once for each set of values, in one round trip."""
        await self._cursor.executemany(query, [{**values, "tenant": self.tenant} for values in many])

    def announce(self) -> None:
        """Wake those who follow the journal, once this is committed."""
        self.announced = True


def jsonb(value: object) -> Any:
    """Mark a list or a scalar as jsonb; a dictionary needs no mark."""
    return Jsonb(value)


@contextlib.asynccontextmanager
async def tenant_transaction(pool: Pool, tenant: str, *, deadline_seconds: float) -> AsyncIterator[Transaction]:
    """Open a transaction in which only the tenant's rows exist; commit it unless the block raises.

    It ends within the deadline, whatever the server does. Raises StoreUnavailable when the server is down, too slow
    or too busy (after a lost commit the outcome is unknown: ask again under the same key), and the other errors of
    `memory.errors` for what Postgres refuses.
    """
    if not tenant:
        raise ValueError("A transaction needs a tenant.")
    ends_at = time.monotonic() + deadline_seconds
    try:
        with translated():
            async with (
                pool.connection(deadline_seconds) as connection,
                _begun(connection, tenant, ends_at - time.monotonic()) as cursor,
            ):
                transaction = Transaction(cursor, tenant)
                yield transaction
    except StoreUnavailable as error:
        if time.monotonic() < ends_at:
            raise
        sentence = f"Postgres did not answer within {deadline_seconds:g} s."
        raise StoreUnavailable(sentence, retry_after_seconds=error.retry_after_seconds) from error.__cause__
    if transaction.announced:
        pool.announce()


@contextlib.asynccontextmanager
async def _begun(connection: Connection, tenant: str, seconds: float) -> AsyncIterator[AsyncCursor[DictRow]]:
    begin = _BEGIN.format(
        tenant=sql.Literal(tenant),
        milliseconds=sql.Literal(_milliseconds(seconds * 0.9)),
        longest=sql.Literal(_milliseconds(seconds * 0.95)),
    )
    async with connection.cursor() as cursor:
        try:
            await cursor.execute(begin)
            yield cursor
        except BaseException:
            with contextlib.suppress(Exception):
                await connection.rollback()
            raise
        await connection.commit()


def _milliseconds(seconds: float) -> str:
    # 0 would mean no limit.
    return str(max(int(seconds * 1000), 1))
