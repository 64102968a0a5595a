"""Vectors that are made once for all measurements: what is measured then is the store."""

import hashlib
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from memory.vectors.embedder import Embedder, Vectors

_AT_ONCE: Final = 256


class KeptVectors:
    """An Embedder in front of another that makes each text's vector once; with a folder, once for later runs too."""

    def __init__(self, embedder: Embedder, folder: Path | None = None) -> None:
        self.name = embedder.name
        self.dimension = embedder.dimension
        self._embedder = embedder
        key = hashlib.sha256(f"{embedder.name}/{embedder.dimension}".encode()).hexdigest()[:16]
        self._file = folder / f"vectors-{key}.npz" if folder is not None else None
        self._kept = self._read()

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Give float32 of shape (texts, dimension), rows of length 1. Raises StoreUnavailable."""
        missing = list(dict.fromkeys(text for text in texts if _digest(text) not in self._kept))
        for start in range(0, len(missing), _AT_ONCE):
            batch = missing[start : start + _AT_ONCE]
            made = await self._embedder.embed(batch)
            self._kept |= zip(map(_digest, batch), made, strict=True)
        rows = [self._kept[_digest(text)] for text in texts]
        return np.array(rows, np.float32).reshape(len(texts), self.dimension)

    async def seconds_for(self, texts: Sequence[str]) -> list[float]:
        """Give how long each text takes when it is embedded anew, one at a time."""
        taken = []
        for text in texts:
            began = time.perf_counter()
            await self._embedder.embed([text])
            taken.append(time.perf_counter() - began)
        return taken

    def save(self) -> None:
        """Write the vectors to the folder, if there is one."""
        if self._file is None or not self._kept:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        # Beside it and then renamed: a run that is stopped leaves no half of a file.
        fresh = self._file.with_suffix(".new.npz")
        np.savez(fresh, keys=np.array(list(self._kept)), vectors=np.stack(list(self._kept.values())))
        fresh.replace(self._file)

    def _read(self) -> dict[str, Vectors]:
        if self._file is None:
            return {}
        try:
            with self._file.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                return dict(zip(stored["keys"].tolist(), stored["vectors"], strict=True))
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
            return {}  # there is none, or not a whole one: it is made again


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
