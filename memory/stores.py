"""What every use case is handed: the stores, and who is calling."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import cast

from memory.journal import Provenance
from memory.masking import Masker
from memory.notes.shelf import NoteVault
from memory.postgres import Pool
from memory.settings import EmbeddingSettings, MemorySettings
from memory.vectors.cached import CachedEmbedder
from memory.vectors.embedder import Embedder
from memory.vectors.endpoint import EndpointEmbedder
from memory.vectors.index import Generation, VectorIndex
from memory.vectors.minilm import MiniLM
from memory.vectors.pgvector import PgvectorIndex


@dataclass(frozen=True, slots=True)
class Stores:
    """The three tiers and what belongs to them; open the pool before the first call."""

    settings: MemorySettings
    pool: Pool
    masker: Masker
    index: VectorIndex
    notes: NoteVault
    # None is search by words alone.
    embedder: Embedder | None = None
    # What the embedder holds open.
    endpoint: EndpointEmbedder | None = None

    @property
    def embedder_name(self) -> str:
        """What vectors are made by, "" for none; a generation of the index belongs to one of them."""
        return self.embedder.name if self.embedder else ""

    def made(self, generation: Generation) -> bool:
        """Say whether a generation's vectors are of the embedder in use: of the same name and dimension."""
        dimension = self.embedder.dimension if self.embedder else 0
        return (generation.embedder, generation.dimension) == (self.embedder_name, dimension)

    def index_with(self, embedder: Embedder | None) -> VectorIndex:
        """Give the same index with another embedder; what it opens is closed with it."""
        return _index(self.settings, self.pool, embedder)

    async def open(self) -> None:
        """Start connecting to the database; one that is down does not stop this. The index connects when it is used."""
        await self.pool.open()

    async def close(self) -> None:
        """Give up every connection."""
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self.pool.close)
            closing.push_async_callback(self.index.close)
            if self.endpoint is not None:
                closing.push_async_callback(self.endpoint.close)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, as the entry point knows it, and how many seconds the call may take."""

    tenant: str
    provenance: Provenance
    deadline_seconds: float


def build_stores(settings: MemorySettings) -> Stores:
    """Put the stores together; nothing is opened or loaded yet."""
    pool, chosen = Pool(settings), settings.embedder
    endpoint = EndpointEmbedder(chosen) if isinstance(chosen, EmbeddingSettings) else None
    maker = MiniLM() if chosen == "minilm" else endpoint
    embedder = CachedEmbedder(maker) if maker else None
    return Stores(
        settings=settings,
        pool=pool,
        masker=Masker(settings.masking_key, settings.secrets),
        index=_index(settings, pool, embedder),
        notes=NoteVault(settings.vault_path, starter_notes()),
        embedder=embedder,
        endpoint=endpoint,
    )


def _index(settings: MemorySettings, pool: Pool, embedder: Embedder | None) -> VectorIndex:
    if settings.opensearch is None:
        return PgvectorIndex(pool, embedder)
    # Its driver is in an extra: it is imported where it is chosen.
    opensearch = import_module("memory.vectors.opensearch")
    return cast(VectorIndex, opensearch.OpenSearchIndex(settings.opensearch, embedder))


def starter_notes() -> Path:
    """Give the folder of the notes that are shipped."""
    return Path(str(files("vault")))
