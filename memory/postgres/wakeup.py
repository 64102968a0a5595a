"""Tell the followers of every process that the journal has grown.

A wake-up is sent after the commit and apart from it: NOTIFY inside a transaction makes all commits of the database
queue for one lock until each is on disk. It may get lost, so whoever listens also looks by himself now and then.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog
from psycopg import AsyncConnection, Error

_log = structlog.get_logger(__name__)
# Events this close together share a wake-up.
_TOGETHER_SECONDS = 0.02
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 5.0
_LISTEN = "listen poimen_journal"
NOTIFY = "notify poimen_journal"


class Announcer:
    """Sends wake-ups in the background, one for all events of a moment."""

    def __init__(self, send: Callable[[], Awaitable[None]]) -> None:
        self._send = send
        self._due = False
        self._task: asyncio.Task[None] | None = None

    def announce(self) -> None:
        """Wake the followers soon. Costs the caller nothing and never fails."""
        self._due = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Drop what is not sent yet."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._due:
            await asyncio.sleep(_TOGETHER_SECONDS)
            self._due = False
            with contextlib.suppress(Error):
                await self._send()


async def listen(dsn: str, woken: Callable[[], None], stop: asyncio.Event) -> None:
    """Call `woken` whenever the journal has grown, and after every deafness, until `stop` is set.

    Holds one connection of its own, outside the pool; a server that is down is waited for.
    """
    hearing = asyncio.create_task(_hear(dsn, woken))
    await stop.wait()
    hearing.cancel()
    await asyncio.gather(hearing, return_exceptions=True)


async def _hear(dsn: str, woken: Callable[[], None]) -> None:
    pause = _SHORTEST_PAUSE_SECONDS
    while True:
        try:
            # Keepalive: a listener sends nothing itself, so it would never notice a lost route.
            async with await AsyncConnection.connect(
                dsn, autocommit=True, connect_timeout=5, keepalives_idle=10, keepalives_interval=5, keepalives_count=3
            ) as connection:
                await connection.execute(_LISTEN)
                pause = _SHORTEST_PAUSE_SECONDS
                woken()
                async for _ in connection.notifies():
                    woken()
        except Error as error:
            _log.info("Listening for wake-ups failed; it is tried again.", error=type(error).__name__)
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
