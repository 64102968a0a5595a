"""A child of the local stack that is started again when it ends by itself."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable

from worker.stack.child import Child, ChildError, ChildSpec, running

MOST_STARTS = 5
WINDOW_SECONDS = 300.0
"""A child that dies after it was started `MOST_STARTS` times in this time is given up."""


@contextlib.asynccontextmanager
async def kept_running(
    spec: ChildSpec, until_ready: Callable[[Child], Awaitable[None]], say: Callable[[str], None]
) -> AsyncIterator[asyncio.Future[None]]:
    """Run a child for the length of a block, and another in its place whenever it ends by itself.

    Yields once it is ready, a future that is done with a `ChildError` when the child is given up, whatever ended the
    keeping. `say` is told of each death in a sentence. Raises `ChildError` when the first does not become ready.
    """
    ready = asyncio.Event()
    keeping = asyncio.ensure_future(_kept(spec, until_ready, say, ready))
    waiting = asyncio.ensure_future(ready.wait())
    try:
        await asyncio.wait({keeping, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if keeping.done():
            keeping.result()
        yield keeping
    finally:
        waiting.cancel()
        keeping.cancel()
        # However it ended is told already, and what still runs of it ends here.
        await asyncio.wait({keeping})


async def _kept(
    spec: ChildSpec,
    until_ready: Callable[[Child], Awaitable[None]],
    say: Callable[[str], None],
    ready: asyncio.Event,
) -> None:
    """Keep the child, and let nothing but a `ChildError` end that: who waits for it has to say why it ended."""
    try:
        await _keep(spec, until_ready, say, ready)
    except ChildError:
        raise
    except Exception as error:
        raise ChildError(f"Keeping {spec.name} running failed: {type(error).__name__}: {error}.") from error


async def _keep(
    spec: ChildSpec,
    until_ready: Callable[[Child], Awaitable[None]],
    say: Callable[[str], None],
    ready: asyncio.Event,
) -> None:
    loop = asyncio.get_running_loop()
    starts: deque[float] = deque(maxlen=MOST_STARTS)
    while True:
        starts.append(loop.time())
        async with running(spec) as child:
            try:
                await until_ready(child)
            except ChildError:
                if not ready.is_set() or not child.exited.done():
                    raise
            else:
                ready.set()
                await asyncio.shield(child.exited)
            death = child.death()
        if len(starts) == MOST_STARTS and loop.time() - starts[0] < WINDOW_SECONDS:
            raise ChildError(f"{death} It was started {MOST_STARTS} times in a row, and is given up.")
        say(f"{death} It is started again.")
