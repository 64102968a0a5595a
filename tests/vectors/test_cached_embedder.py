from collections.abc import Sequence

import numpy as np
import pytest

from memory.errors import StoreUnavailable
from memory.vectors.cached import CachedEmbedder
from memory.vectors.embedder import Vectors


class Counting:
    """Gives vectors that name their text's length, and counts what it was asked."""

    name = "counting"
    dimension = 2

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.down = False

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked.append(tuple(texts))
        if self.down:
            raise StoreUnavailable("down")
        return np.array([[len(text), 1] for text in texts], np.float32)


async def test_a_query_is_embedded_once() -> None:
    counting = Counting()
    cached = CachedEmbedder(counting)
    assert (cached.name, cached.dimension) == ("counting", 2)
    first = await cached.embed(["port"])
    assert (await cached.embed(["port"]) == first).all()
    assert counting.asked == [("port",)]
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 7


async def test_what_was_asked_longest_ago_is_forgotten_first() -> None:
    counting = Counting()
    cached = CachedEmbedder(counting, most=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        await cached.embed([text])
    assert counting.asked == [("a",), ("b",), ("c",), ("b",)]


async def test_documents_push_no_query_out() -> None:
    counting = Counting()
    cached = CachedEmbedder(counting, most=1)
    await cached.embed(["port"])
    assert (await cached.embed(["a", "bb"])).shape == (2, 2)
    await cached.embed(["port"])
    assert counting.asked == [("port",), ("a", "bb")]


async def test_a_failure_is_not_kept() -> None:
    counting = Counting()
    cached = CachedEmbedder(counting)
    counting.down = True
    with pytest.raises(StoreUnavailable):
        await cached.embed(["port"])
    counting.down = False
    assert (await cached.embed(["port"])).shape == (1, 2)
