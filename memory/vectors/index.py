"""Tier 2's port: what any index of knowledge must be able to do."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from memory.vectors.ranking import Statistics
from poimen.contracts.vocabulary import EmptyReason, ItemKind, TierHealth, TierStatus

State = Literal["active", "retired", "quarantined"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """An item as the index holds it; one that is not active is a tombstone, which no search finds.

    `version` is the journal position of the event it was made from: an older one never overwrites a newer one.
    """

    tenant: str
    scope: str
    id: str
    kind: str
    level: str
    text: str
    version: int
    state: State = "active"
    # When it was learned; the age filter reads it.
    recorded_at: datetime | None = None

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of all that a search may give or filter by; equal in every store and generation."""
        instant = self.recorded_at.isoformat() if self.recorded_at else None
        text = self.text if self.state == "active" else ""
        fields = (self.kind, self.level, self.state, text, instant)
        return hashlib.sha256(json.dumps(fields).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is looked for, in one scope and the library; an empty filter lets everything through.

    Without `cut_off` the best are given however little they fit: for measuring a ranking, not for a step.
    """

    tenant: str
    scope: str
    text: str
    kinds: tuple[ItemKind, ...] = ()
    levels: tuple[str, ...] = ()
    not_before: datetime | None = None
    limit: int = 10
    cut_off: bool = True


@dataclass(frozen=True, slots=True)
class Hit:
    """A found item: its score from 0 to 1, the query's terms that it has, rarest first, and its cosine if known."""

    id: str
    score: float
    matched: tuple[str, ...]
    cosine: float | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What a search gave: hits, best first, or none with the reason and its sentence.

    `by_words_because` says why meaning was not compared, when only words were. `statistics` are of the scopes that
    were searched; `status` is the index's own, whatever was found beside it.
    """

    hits: tuple[Hit, ...] = ()
    searched: int = 0
    empty_reason: EmptyReason | None = None
    empty_because: str | None = None
    by_words_because: str | None = None
    statistics: Statistics | None = field(default=None, compare=False)
    status: TierStatus = "answered"


@dataclass(frozen=True, slots=True)
class Put:
    """What became of one document: stored, older than what is there, or failed with the reason."""

    id: str
    outcome: Literal["stored", "older", "failed"]
    because: str | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """How a store is, in a sentence; `lag_seconds` is how far it is behind the journal, if that is known."""

    health: TierHealth
    detail: str
    lag_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """One whole index of a tenant. Searches read the live one; documents are written to live and building ones.

    `embedder` is the name of what made its vectors, "" when it has none.
    """

    number: int
    state: Literal["building", "live", "kept"]
    embedder: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One document of a generation, or a tombstone, as far as a comparison needs it."""

    scope: str
    id: str
    version: int
    state: State
    digest: str


class VectorIndex(Protocol):
    """An index of knowledge. A search sees one tenant, one scope and the library, and nothing else shifts its scores.

    Every method raises StoreUnavailable when the store does not answer within the deadline.
    """

    @property
    def name(self) -> str:
        """Its name in settings and reports: "pgvector" or "opensearch"."""
        ...

    async def put(self, documents: Sequence[Document], *, deadline_seconds: float) -> tuple[Put, ...]:
        """Store documents of one tenant in every generation that takes writes; give one outcome for each, in order.

        A tenant without a generation gets none by this, since it would lack what was put before: StoreUnavailable.
        "failed" is said only of a document that the store does not take by itself.
        """
        ...

    async def search(self, query: Query, *, deadline_seconds: float) -> Found:
        """Give the active items that fit, or none with a reason; without a live generation nothing is found."""
        ...

    async def health(self, tenant: str, *, deadline_seconds: float) -> Condition:
        """Say how the store is."""
        ...

    async def generations(self, tenant: str, *, deadline_seconds: float) -> tuple[Generation, ...]:
        """Give the tenant's generations, newest first."""
        ...

    async def begin(self, tenant: str, *, deadline_seconds: float) -> Generation:
        """Add an empty building generation, of the embedder in use; one that was being built before is dropped."""
        ...

    async def promote(self, tenant: str, number: int, *, deadline_seconds: float) -> None:
        """Make the building generation live at once and keep the former one; what was kept before is dropped.

        Asked again it changes nothing. Raises NotFound when it neither is being built nor is live.
        """
        ...

    async def entries(
        self, tenant: str, number: int, *, after: tuple[str, str] | None, limit: int, deadline_seconds: float
    ) -> Sequence[Entry]:
        """List a generation in order of (scope, id), tombstones included, from behind `after` on."""
        ...

    async def drop(self, tenant: str, *, deadline_seconds: float) -> None:
        """Take every generation of the tenant away, and all that is in them; the deadline is each request's."""
        ...

    async def close(self) -> None:
        """Give up connections of its own; the memory's database is not its own."""
        ...


async def begin_first(index: VectorIndex, tenant: str, *, deadline_seconds: float) -> None:
    """Make an empty live generation for a tenant of whom nothing is on record yet, unless it has one."""
    known = await index.generations(tenant, deadline_seconds=deadline_seconds)
    if not any(generation.state == "live" for generation in known):
        begun = await index.begin(tenant, deadline_seconds=deadline_seconds)
        await index.promote(tenant, begun.number, deadline_seconds=deadline_seconds)
