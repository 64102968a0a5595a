"""Keep the vectors of what was asked last: one query is looked for in several places, and again at the next attempt."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from memory.vectors.embedder import Embedder, Vectors

MOST_KEPT: Final = 1024


class CachedEmbedder:
    """An Embedder in front of another; a text that comes alone is a query, and its vector is kept.

    Documents come together and seldom twice: they would only push the queries out.
    """

    def __init__(self, embedder: Embedder, *, most: int = MOST_KEPT) -> None:
        self.name = embedder.name
        self.dimension = embedder.dimension
        self.behind = embedder
        self._most = most
        self._kept: OrderedDict[str, Vectors] = OrderedDict()

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Give float32 of shape (texts, dimension), rows of length 1; a kept one cannot be written to.

        Raises StoreUnavailable and Rejected when the embedder behind it does.
        """
        if len(texts) != 1:
            return await self.behind.embed(texts)
        (text,) = texts
        vectors = self._kept.get(text)
        if vectors is None:
            vectors = await self.behind.embed(texts)
            vectors.setflags(write=False)
            self._kept[text] = vectors
        self._kept.move_to_end(text)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return vectors
