"""What turns texts into vectors."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into vectors of length 1. Its name is stored beside every vector: another name is another space."""

    name: str
    dimension: int

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Give float32 of shape (texts, dimension), rows of length 1; works off the event loop.

        Raises StoreUnavailable when it cannot answer now, Rejected when it will never take one of these texts.
        """
        ...
