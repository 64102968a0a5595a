"""Tier 2 in Postgres: BM25 over postings of its own, cosines by pgvector, exact for scopes of up to 50 thousand items.

By words alone without an embedder. It needs nothing beside the memory's own database.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memory.aside import aside
from memory.errors import FinalError, NotFound, StoreUnavailable
from memory.postgres.pool import Pool
from memory.postgres.transaction import tenant_transaction
from memory.vectors.answer import Asked, ask, found, nothing_there, nothing_to_ask
from memory.vectors.embedder import Embedder
from memory.vectors.index import Condition, Document, Entry, Found, Generation, Put, Query
from memory.vectors.pgvector_put import SQL, Space, entries_of, vector_text, write
from memory.vectors.pgvector_put import changes as find_changes
from memory.vectors.pgvector_search import Corpora, candidates, searched
from memory.vectors.ranking import rank

DOCUMENTS_A_TRANSACTION: Final = 200
CHARACTERS_A_TRANSACTION: Final = 100_000
"""Its scopes are locked while their postings are made and written: about a quarter of a second for as many."""

SWEPT_AT_ONCE: Final = 1_000
# Of a number as text.
_DIGITS: Final = 8


@dataclass(frozen=True, slots=True)
class PgvectorIndex:
    """A VectorIndex in the memory's own database; `embedder` makes its vectors, or nothing does."""

    pool: Pool
    embedder: Embedder | None = None

    @property
    def name(self) -> str:
        """Its name in settings and reports."""
        return "pgvector"

    async def put(self, documents: Sequence[Document], *, deadline_seconds: float) -> tuple[Put, ...]:
        """Store documents of one tenant; the deadline is each transaction's, and embedding comes before them."""
        if len({document.tenant for document in documents}) > 1:
            raise ValueError("Documents of one tenant are put together.")
        outcomes: list[Put] = []
        for batch in _batches(documents):
            outcomes += await self._put_apart(batch, deadline_seconds)
        return tuple(outcomes)

    async def search(self, query: Query, *, deadline_seconds: float) -> Found:
        """Give the active items that fit, or none with a reason; without a live generation nothing is found."""
        ends_at = time.monotonic() + deadline_seconds
        asked = await ask(query, self.embedder, deadline_seconds)
        if asked.empty:
            return nothing_to_ask(asked)
        seconds = max(ends_at - time.monotonic(), 0.001)
        async with tenant_transaction(self.pool, query.tenant, deadline_seconds=seconds) as tx:
            corpora = await searched(tx, query)
            if corpora is None or corpora.documents == 0:
                return nothing_there(asked)
            asked = self._comparable(asked, corpora)
            ranked, statistics = await candidates(tx, asked, corpora)
        return found(asked, rank(asked.terms, asked.vector, ranked, statistics), corpora.documents)

    async def health(self, tenant: str, *, deadline_seconds: float) -> Condition:
        """Say whether the tables answer, and whether meaning is compared."""
        async with tenant_transaction(self.pool, tenant, deadline_seconds=deadline_seconds) as tx:
            live = await tx.row(SQL["answer"])
        if live is not None and live["embedder"] != self._space.embedder:
            return Condition("degraded", f"search by words answers; {_other_embedder(live['embedder'])}")
        if self.embedder is None:
            return Condition("ok", "search by words answers; no embedder is set")
        return Condition("ok", f"search by words and meaning answers ({self.embedder.name})")

    async def generations(self, tenant: str, *, deadline_seconds: float) -> tuple[Generation, ...]:
        """Give the tenant's generations, newest first."""
        async with tenant_transaction(self.pool, tenant, deadline_seconds=deadline_seconds) as tx:
            return tuple(Generation(**row) for row in await tx.rows(SQL["generations"]))

    async def begin(self, tenant: str, *, deadline_seconds: float) -> Generation:
        """Add an empty building generation, of the embedder in use; one that was being built before is dropped."""
        space = self._space
        async with tenant_transaction(self.pool, tenant, deadline_seconds=deadline_seconds) as tx:
            tx.defer(SQL["lock_generations"])
            tx.defer(SQL["drop_generations"], states=["building"])
            row = await tx.row(SQL["add_building"], embedder=space.embedder, dimension=space.dimension)
        assert row is not None
        return Generation(**row)

    async def promote(self, tenant: str, number: int, *, deadline_seconds: float) -> None:
        """Make the building generation live at once and keep the former one; what was kept before is dropped."""
        async with tenant_transaction(self.pool, tenant, deadline_seconds=deadline_seconds) as tx:
            tx.defer(SQL["lock_generations"])
            states = {row["number"]: row["state"] for row in await tx.rows(SQL["generations"])}
            if states.get(number) == "live":
                return
            if states.get(number) != "building":
                raise NotFound(f"Generation {number} of the index is neither being built nor live.")
            tx.defer(SQL["drop_generations"], states=["kept"])
            tx.defer(SQL["keep_live"])
            tx.defer(SQL["make_live"], number=number)

    async def entries(
        self, tenant: str, number: int, *, after: tuple[str, str] | None, limit: int, deadline_seconds: float
    ) -> Sequence[Entry]:
        """List a generation in order of (scope, id), tombstones included, from behind `after` on."""
        scope, item = after or ("", "")
        async with tenant_transaction(self.pool, tenant, deadline_seconds=deadline_seconds) as tx:
            rows = await tx.rows(SQL["entries"], number=number, scope=scope, id=item, limit=limit)
        return [Entry(**row) for row in rows]

    async def drop(self, tenant: str, *, deadline_seconds: float) -> None:
        """Take every generation of the tenant away, and all that is in them, little by little."""
        async with tenant_transaction(self.pool, tenant, deadline_seconds=deadline_seconds) as tx:
            tx.defer(SQL["lock_generations"])
            tx.defer(SQL["drop_generations"], states=["building", "live", "kept"])
        while await self._sweep(tenant, deadline_seconds):
            pass

    async def close(self) -> None:
        """Give nothing up: the memory's database is not its own."""

    @property
    def _space(self) -> Space:
        return Space("", 0) if self.embedder is None else Space(self.embedder.name, self.embedder.dimension)

    def _comparable(self, asked: Asked, corpora: Corpora) -> Asked:
        """Give the query without its vector, when those of the index are of another space."""
        if asked.vector is None or corpora.space == self._space:
            return asked
        return asked.by_words(_other_embedder(corpora.space.embedder))

    async def _put_apart(self, batch: Sequence[Document], seconds: float) -> list[Put]:
        """Put a batch; when its store refuses it for good, put each document by itself to find out which it refuses."""
        try:
            return await self._put(batch, seconds)
        except FinalError as error:
            if len(batch) == 1:
                return [Put(batch[0].id, "failed", str(error))]
        return [outcome for document in batch for outcome in await self._put_apart([document], seconds)]

    async def _put(self, batch: Sequence[Document], seconds: float) -> list[Put]:
        entries = await entries_of(batch)
        vectors: dict[str, str] = {}
        while True:
            async with tenant_transaction(self.pool, batch[0].tenant, deadline_seconds=seconds) as tx:
                changes = await find_changes(tx, entries, self._space)
                missing = changes.without_vector(vectors) if self.embedder is not None else []
                if not missing:
                    await write(tx, changes, vectors)
            if not missing:
                break
            # Outside of the transaction, for it takes its time; what is there already by then was never embedded.
            vectors |= await self._embedded(missing)
        if changes.littered:
            # What was put is stored, whatever becomes of this.
            with contextlib.suppress(StoreUnavailable):
                await self._sweep(batch[0].tenant, seconds)
        newest = {id(entry.document) for entry in entries}
        stored = changes.stored
        return [
            Put(one.id, "stored" if id(one) in newest and (one.scope, one.id) in stored else "older") for one in batch
        ]

    async def _embedded(self, texts: Sequence[str]) -> Mapping[str, str]:
        assert self.embedder is not None
        vectors = await self.embedder.embed(texts)
        written = await aside(vectors.size * _DIGITS, lambda: [vector_text(vector) for vector in vectors])
        return dict(zip(texts, written, strict=True))

    async def _sweep(self, tenant: str, seconds: float) -> bool:
        """Take some of what was dropped away; say whether there was anything."""
        async with tenant_transaction(self.pool, tenant, deadline_seconds=seconds, durable=False) as tx:
            swept = await tx.row(SQL["sweep"], limit=SWEPT_AT_ONCE)
            if swept is None:
                return False
            if swept["corpus"] is None:
                tx.defer(SQL["sweep_generation"], number=swept["number"])
            elif not swept["taken"]:
                tx.defer(SQL["sweep_corpus"], corpus=swept["corpus"])
        return True


def _batches(documents: Sequence[Document]) -> Iterator[Sequence[Document]]:
    batch: list[Document] = []
    characters = 0
    for document in documents:
        characters += len(document.text)
        if batch and (len(batch) == DOCUMENTS_A_TRANSACTION or characters > CHARACTERS_A_TRANSACTION):
            yield batch
            batch, characters = [], len(document.text)
        batch.append(document)
    if batch:
        yield batch


def _other_embedder(name: str) -> str:
    made = f"vectors of {name}" if name else "no vectors"
    return f"the index has {made}: run poimen rebuild --index"
