"""A TCP proxy on loopback that can refuse, swallow, or delay: an outage under a test's control."""

import asyncio
import contextlib


class TcpProxy:
    """Forwards connections to one target until told otherwise; a change also holds for open connections."""

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.port = 0
        self.delay_seconds = 0.0
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._flows = asyncio.Event()
        self._flows.set()
        self._open: set[asyncio.Task[None]] = set()

    async def pass_on(self) -> None:
        """Forward again, at once."""
        self.delay_seconds = 0.0
        self._flows.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Cut every connection and refuse new ones, as a server does that is down."""
        if self._server is not None:
            self._server.close()
            self._server = None
        await self.cut()

    def black_hole(self) -> None:
        """Accept and keep connections, but deliver no byte, as a network does that lost its route."""
        self._flows.clear()

    def delay(self, seconds: float) -> None:
        """Hold every chunk back for some seconds, in both directions."""
        self.delay_seconds = seconds

    async def cut(self) -> None:
        """End the connections that are open now."""
        for task in (cutting := list(self._open)):
            task.cancel()
        await asyncio.gather(*cutting, return_exceptions=True)

    async def close(self) -> None:
        """Refuse, for good."""
        await self.refuse()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.connections += 1
        self._open.add(task)
        writers = [writer]
        try:
            far_reader, far_writer = await asyncio.open_connection(*self.target)
            writers.append(far_writer)
            directions = {
                asyncio.ensure_future(self._copy(reader, far_writer)),
                asyncio.ensure_future(self._copy(far_reader, writer)),
            }
            try:
                await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for direction in directions:
                    direction.cancel()
                await asyncio.gather(*directions, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass  # a cut connection is what the test asked for
        finally:
            self._open.discard(task)
            for each in writers:
                each.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(65_536):
                await asyncio.sleep(self.delay_seconds)
                await self._flows.wait()
                writer.write(chunk)
                await writer.drain()


async def open_proxy(host: str, port: int) -> TcpProxy:
    """Return a proxy that forwards to the target; its `port` is chosen by the operating system."""
    proxy = TcpProxy(host, port)
    await proxy.pass_on()
    return proxy
