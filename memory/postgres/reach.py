"""Remember that the server is gone, so that only the first call finds out by waiting."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import structlog
from psycopg import Error, OperationalError

# How long callers wait for the word on a server that is only suspected; a server nearby answers in a tenth of it.
_PATIENCE_SECONDS: Final = 0.15
_PAUSE_SECONDS: Final = 0.2

_log = structlog.get_logger(__name__)


class Reach:
    """Whether the server answers, as far as the latest calls know.

    While it does not, one task knocks at a time, and every caller fails at once instead of waiting for a connection.
    """

    def __init__(self, knock: Callable[[], Awaitable[None]]) -> None:
        """`knock` returns when the server answers, and raises the driver's error when it does not."""
        self._knock = knock
        self._gone = False
        self._answering = asyncio.Event()
        self._answering.set()
        self._callers: set[asyncio.Timeout] = set()
        self._knocking: asyncio.Task[None] | None = None
        self._patience: asyncio.TimerHandle | None = None

    def answered(self) -> None:
        """The server has just answered."""
        self._gone = False
        self._answering.set()
        if self._patience is not None:
            self._patience.cancel()

    def suspect(self) -> None:
        """A call got no answer in time: knock, and let nobody else begin before the word on it."""
        if self._answering.is_set():
            self._answering.clear()
            if self._knocking is None or self._knocking.done():
                self._knocking = asyncio.create_task(self._until_answered())
            self._patience = asyncio.get_running_loop().call_later(_PATIENCE_SECONDS, self._give_up)

    def lose(self) -> None:
        """The server refuses, and no connection is left: whoever waits for one fails now."""
        self.suspect()
        self._give_up()

    async def close(self) -> None:
        """Stop knocking."""
        if self._knocking is not None:
            self._knocking.cancel()
            await asyncio.gather(self._knocking, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def while_answering(self) -> AsyncIterator[None]:
        """Run the block unless the server is gone, and end it when that becomes known. Raises OperationalError."""
        if self._gone:
            # Whoever asks again in a loop must not keep the answer from being read.
            await asyncio.sleep(0)
            raise OperationalError("The server is gone.")
        try:
            async with asyncio.timeout(None) as caller:
                self._callers.add(caller)
                try:
                    await self._answering.wait()
                    yield
                finally:
                    self._callers.discard(caller)
        except TimeoutError:
            raise OperationalError("The server is gone.") from None

    def _give_up(self) -> None:
        self._gone = True
        now = asyncio.get_running_loop().time()
        for caller in self._callers:
            caller.reschedule(now)

    async def _until_answered(self) -> None:
        while not self._answering.is_set():
            try:
                await self._knock()
            except Exception as error:
                # Whatever it is, somebody must go on knocking, or nobody would ever be let in again.
                if not isinstance(error, Error):
                    _log.exception("Knocking at Postgres failed unexpectedly.")
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                self.answered()
