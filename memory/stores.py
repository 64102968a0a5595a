"""What every use case is handed: the stores, and who is calling."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from memory.journal import Provenance
from memory.masking import Masker
from memory.notes.shelf import NoteVault
from memory.postgres import Pool
from memory.settings import MemorySettings
from memory.vectors.index import VectorIndex
from memory.vectors.pgvector import PgvectorIndex


@dataclass(frozen=True, slots=True)
class Stores:
    """The three tiers and what belongs to them; open the pool before the first call."""

    settings: MemorySettings
    pool: Pool
    masker: Masker
    index: VectorIndex
    notes: NoteVault


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, as the entry point knows it, and how many seconds the call may take."""

    tenant: str
    provenance: Provenance
    deadline_seconds: float


def build_stores(settings: MemorySettings) -> Stores:
    """Put the stores together; nothing is opened yet."""
    pool = Pool(settings)
    return Stores(
        settings=settings,
        pool=pool,
        masker=Masker(settings.masking_key, settings.secrets),
        index=PgvectorIndex(pool),
        notes=NoteVault(settings.vault_path, starter_notes()),
    )


def starter_notes() -> Path:
    """Give the folder of the notes that are shipped."""
    return Path(str(files("vault")))
