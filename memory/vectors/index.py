"""Tier 2's port: what any index of knowledge must be able to do."""

from dataclasses import dataclass
from typing import Literal, Protocol

from poimen.contracts.vocabulary import EmptyReason, ItemKind, TierHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """An item as the index holds it.

    `version` is the journal position of the event it was made from: an older one never overwrites a newer one.
    """

    tenant: str
    scope: str
    id: str
    kind: str
    level: str
    text: str
    version: int
    state: Literal["active", "retired", "quarantined"] = "active"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is looked for, in one scope and the library; no `kinds` means every kind."""

    tenant: str
    scope: str
    text: str
    kinds: tuple[ItemKind, ...] = ()
    limit: int = 10


@dataclass(frozen=True, slots=True)
class Hit:
    """A found item: its score from 0 to 1 and the query's terms that it has, rarest first."""

    id: str
    score: float
    matched: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search gave: hits, best first, or none with the reason and its sentence."""

    hits: tuple[Hit, ...] = ()
    searched: int = 0
    empty_reason: EmptyReason | None = None
    empty_because: str | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """How a store is, in a sentence; `lag_seconds` is how far it is behind the journal, if that is known."""

    health: TierHealth
    detail: str
    lag_seconds: float | None = None


class VectorIndex(Protocol):
    """An index of knowledge. A search sees one tenant, one scope and the library, and nothing else shifts its scores.

    Every method raises StoreUnavailable when the store does not answer within the deadline.
    """

    async def index(self, document: Document, *, deadline_seconds: float) -> bool:
        """Store the document; return False when the same or a newer version is there."""
        ...

    async def remove(self, tenant: str, scope: str, item_id: str, version: int, *, deadline_seconds: float) -> bool:
        """Leave a tombstone of this version; return False when the same or a newer version is there."""
        ...

    async def search(self, query: Query, *, deadline_seconds: float) -> Found:
        """Give the active items that fit, or none with a reason."""
        ...

    async def health(self, tenant: str, *, deadline_seconds: float) -> Condition:
        """Say how the store is."""
        ...
