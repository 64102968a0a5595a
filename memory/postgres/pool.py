"""Connections of the application's role, bounded in number and in time."""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Self

import structlog
from psycopg import AsyncConnection, Error, OperationalError
from psycopg.errors import ConnectionTimeout
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import JsonbDumper
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from memory.postgres.connecting import Failure, NotConnected, why_not_connected
from memory.postgres.reach import Reach
from memory.postgres.wakeup import NOTIFY, Announcer
from memory.settings import MemorySettings

# A connection used this recently is not asked whether it is alive.
_FRESH_SECONDS = 1.0
_CHECK_SECONDS = 0.3
_NOTIFY_SECONDS = 1.0
# libpq knows no less; only tasks in the background wait that long.
_CONNECT_SECONDS = 2
# The pool tries a lost connection twice in this time and then leaves it: the next caller makes it connect at once,
# while its own backoff would keep that caller waiting for seconds after the server is back.
_RECONNECT_SECONDS = 0.05
# A call that ends this close to its deadline has waited for the server all the time.
_NEARLY_SECONDS = 0.02
# Who waits no longer than this says nothing about the server by giving up.
_TELLING_SECONDS = 0.2

_log = structlog.get_logger(__name__)


class Connection(AsyncConnection[DictRow]):
    """A connection that can be abandoned at once.

    The driver answers the cancellation of a caller by asking the server to cancel, for up to ten seconds. A server
    behind a black hole never answers, so here the socket is shut instead: the pending read ends, the pool replaces
    the connection, and the server's own time-outs end the statement.
    """

    used_at = float("-inf")
    abandoned = False

    @classmethod
    async def connect(  # type: ignore[override] # its own options may have any name, ours has this one
        cls, conninfo: str = "", *, told: Callable[[Error | None], None] = lambda _: None, **options: Any
    ) -> Self:
        """Connect as the driver does, and tell the error, or None."""
        try:
            connection = await super().connect(conninfo, **options)
        except Error as error:
            told(error)
            raise
        told(None)
        return connection

    def abandon(self) -> None:
        """Shut the socket; whatever waits for the server fails now."""
        if self.closed:
            return
        self.abandoned = True
        # A socket object closes its descriptor, and libpq owns this one.
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.fileno())) as handle:
            handle.shutdown(socket.SHUT_RDWR)

    async def cancel_safe(self, *, timeout: float = 30.0) -> None:  # noqa: ARG002, ASYNC109 - the driver's signature
        self.abandon()


class Pool:
    """The process's connections to Postgres; `memory.postgres.transaction` is the only way to use them."""

    def __init__(self, settings: MemorySettings) -> None:
        self._wait_seconds = settings.connection_wait_seconds
        self._dsn = settings.postgres_dsn
        self._lent = 0
        self._was_connected = False
        self._failure: Failure | None = None
        self._announcer = Announcer(self._notify)
        self._reach = Reach(self._knock)
        self._connections: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            settings.postgres_dsn,
            connection_class=Connection,
            kwargs={
                "autocommit": True,
                "row_factory": dict_row,
                "connect_timeout": _CONNECT_SECONDS,
                "told": self._connected,
            },
            min_size=settings.pool_min_size,
            max_size=settings.pool_max_size,
            max_waiting=settings.pool_max_waiting,
            timeout=settings.connection_wait_seconds,
            reconnect_timeout=_RECONNECT_SECONDS,
            configure=_configure,
            name="memory",
            open=False,
        )

    async def open(self) -> None:
        """Start connecting in the background; a server that is down does not stop this."""
        await self._connections.open(wait=False)

    async def close(self) -> None:
        """Close every connection; those that are lent end with their transactions."""
        await self._announcer.close()
        await self._reach.close()
        await self._connections.close(timeout=2.0)

    def announce(self) -> None:
        """Wake those who follow the journal, soon. For this package alone."""
        self._announcer.announce()

    @contextlib.asynccontextmanager
    async def connection(self, deadline_seconds: float) -> AsyncIterator[Connection]:
        """Lend a connection that is abandoned when the deadline passes. For this package alone.

        Fails at once while the server is known to be gone.
        """
        ends_at = time.monotonic() + deadline_seconds
        connection = await self._taken(ends_at)
        self._lent += 1
        try:
            async with connection:
                with _abandoned_after(connection, ends_at - time.monotonic()):
                    yield connection
        except BaseException:
            # The server's own time-outs end a statement sooner, so what reached the deadline had no answer at all.
            late = time.monotonic() > ends_at - _NEARLY_SECONDS
            if connection.abandoned and late and deadline_seconds >= _TELLING_SECONDS:
                self._reach.suspect()
            raise
        finally:
            self._lent -= 1
            await self._connections.putconn(connection)
        connection.used_at = time.monotonic()
        self._reach.answered()

    async def _taken(self, ends_at: float) -> Connection:
        try:
            return await self._waited_for(ends_at)
        except OperationalError as error:
            if self._failure is None or self._lent:
                raise
            raise NotConnected.because_of(self._failure) from error

    async def _waited_for(self, ends_at: float) -> Connection:
        async with self._reach.while_answering():
            until = min(time.monotonic() + self._wait_seconds, ends_at)
            try:
                # The pool's own check would pause for a second after the second connection that a restart broke.
                while not await self._usable(connection := await self._connections.getconn(until - time.monotonic())):
                    continue
            except PoolTimeout:
                if not self._lent:
                    self._reach.suspect()
                raise
            return connection

    async def _usable(self, connection: Connection) -> bool:
        """Say whether the connection lives; one that does not goes back, to be replaced."""
        if time.monotonic() - connection.used_at < _FRESH_SECONDS:
            return True
        try:
            with _abandoned_after(connection, _CHECK_SECONDS):
                await connection.execute("")
        except BaseException as error:
            await self._connections.putconn(connection)
            if isinstance(error, Error):
                return False
            raise
        return True

    def _connected(self, error: Error | None) -> None:
        self._note(error)
        if error is None:
            self._reach.answered()
        elif not self._lent and not self._connections.get_stats()["pool_available"]:
            silent = isinstance(error, ConnectionTimeout)
            (self._reach.suspect if silent else self._reach.lose)()

    def _note(self, error: Error | None) -> None:
        failure = None if error is None else why_not_connected(error)
        if failure is not None and failure != self._failure and self._was_connected:
            _log.warning("Memory lost its database; it is tried again.", why=failure.value)
        self._was_connected |= failure is None
        self._failure = failure

    async def _knock(self) -> None:
        connected = Connection.connect(self._dsn, autocommit=True, connect_timeout=_CONNECT_SECONDS, told=self._note)
        await (await connected).close()

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
