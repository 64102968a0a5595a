"""Connections of the application's role, bounded in number and in time."""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator

from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import JsonbDumper
from psycopg_pool import AsyncConnectionPool

from memory.postgres.wakeup import NOTIFY, Announcer
from memory.settings import MemorySettings

# A connection used this recently is not asked whether it is alive.
_FRESH_SECONDS = 1.0
_CHECK_SECONDS = 0.3
_NOTIFY_SECONDS = 1.0


class Connection(AsyncConnection[DictRow]):
    """A connection that can be abandoned at once.

    The driver answers the cancellation of a caller by asking the server to cancel, for up to ten seconds. A server
    behind a black hole never answers, so here the socket is shut instead: the pending read ends, the pool replaces
    the connection, and the server's own time-outs end the statement.
    """

    used_at = float("-inf")

    def abandon(self) -> None:
        """Shut the socket; whatever waits for the server fails now."""
        if self.closed:
            return
        # A socket object closes its descriptor, and libpq owns this one.
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.fileno())) as handle:
            handle.shutdown(socket.SHUT_RDWR)

    async def cancel_safe(self, *, timeout: float = 30.0) -> None:  # noqa: ARG002, ASYNC109 - the driver's signature
        self.abandon()


class Pool:
    """The process's connections to Postgres; `memory.postgres.transaction` is the only way to use them."""

    def __init__(self, settings: MemorySettings) -> None:
        self._wait_seconds = settings.connection_wait_seconds
        self._announcer = Announcer(self._notify)
        self._connections: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            settings.postgres_dsn,
            connection_class=Connection,
            # connect_timeout: libpq knows no less than 2 s; only the pool's own tasks wait that long.
            kwargs={"autocommit": True, "row_factory": dict_row, "connect_timeout": 2},
            min_size=settings.pool_min_size,
            max_size=settings.pool_max_size,
            max_waiting=settings.pool_max_waiting,
            timeout=settings.connection_wait_seconds,
            reconnect_timeout=settings.reconnect_seconds,
            configure=_configure,
            check=_check,
            name="memory",
            open=False,
        )

    async def open(self) -> None:
        """Start connecting in the background; a server that is down does not stop this."""
        await self._connections.open(wait=False)

    async def close(self) -> None:
        """Close every connection; those that are lent end with their transactions."""
        await self._announcer.close()
        await self._connections.close(timeout=2.0)

    def announce(self) -> None:
        """Wake those who follow the journal, soon. For this package alone."""
        self._announcer.announce()

    def stats(self) -> dict[str, int]:
        """Return the pool's counters: connections, waiters, errors."""
        return self._connections.get_stats()

    @contextlib.asynccontextmanager
    async def connection(self, deadline_seconds: float) -> AsyncIterator[Connection]:
        """Lend a connection that is abandoned when the deadline passes. For this package alone."""
        ends_at = time.monotonic() + deadline_seconds
        wait_seconds = min(self._wait_seconds, deadline_seconds)
        async with self._connections.connection(timeout=wait_seconds) as connection:
            with _abandoned_after(connection, ends_at - time.monotonic()):
                yield connection
            connection.used_at = time.monotonic()

    async def _notify(self) -> None:
        async with self.connection(_NOTIFY_SECONDS) as connection:
            await connection.execute(NOTIFY)


@contextlib.contextmanager
def _abandoned_after(connection: Connection, seconds: float) -> Iterator[None]:
    timer = asyncio.get_running_loop().call_later(max(seconds, 0.0), connection.abandon)
    try:
        yield
    finally:
        timer.cancel()


async def _configure(connection: Connection) -> None:
    connection.adapters.register_dumper(dict, JsonbDumper)
    connection.used_at = time.monotonic()


async def _check(connection: Connection) -> None:
    if time.monotonic() - connection.used_at < _FRESH_SECONDS:
        return
    with _abandoned_after(connection, _CHECK_SECONDS):
        await connection.execute("")
