"""An embedder for tests: fast, the same everywhere, and texts that share words come out alike."""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from memory.errors import Rejected, StoreUnavailable
from memory.vectors.embedder import Vectors


class HashedEmbedder:
    """Adds up a random direction for each word. It can be told to be down or to refuse a word, and counts its texts."""

    def __init__(self, name: str = "hashed", dimension: int = 64) -> None:
        self.name = name
        self.dimension = dimension
        self.down = False
        self.refused: str | None = None
        self.embedded = 0

    async def embed(self, texts: Sequence[str]) -> Vectors:
        if self.down:
            raise StoreUnavailable("The embedder is down.")
        if self.refused is not None and any(self.refused in text for text in texts):
            raise Rejected("The embedder does not take this text.")
        self.embedded += len(texts)
        rows = np.array([self.vector(text) for text in texts], np.float32)
        return rows.reshape(len(texts), self.dimension)

    def vector(self, text: str) -> Vectors:
        words = re.findall(r"\w+", text.lower()) or [text]
        total = np.sum([_direction(self.name, word, self.dimension) for word in words], axis=0)
        unit: Vectors = (total / np.linalg.norm(total)).astype(np.float32)
        return unit


@lru_cache(maxsize=100_000)
def _direction(name: str, word: str, dimension: int) -> Vectors:
    digest = hashlib.sha256(f"{name}/{word}".encode("utf-8", "surrogatepass")).digest()
    numbers = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    return numbers.standard_normal(dimension).astype(np.float32)
