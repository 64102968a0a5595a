"""Keep long computations off the event loop, where every other call waits for them."""

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
# Masking this much of the worst text takes some milliseconds; a thread costs one.
_LIGHT_CHARACTERS: Final = 16_384


async def aside(characters: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do the work on some characters: at once when they are few, else in a thread."""
    if characters <= _LIGHT_CHARACTERS:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)
