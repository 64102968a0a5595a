"""Tier 2 in Postgres: BM25 over postings of its own, cosines by pgvector, exact for scopes of up to 10 thousand items.

By words alone without an embedder. It needs nothing beside the memory's own database.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import numpy as np

from memory.errors import FinalError, NotFound, SchemaDiffers
from memory.postgres.pool import Pool
from memory.postgres.transaction import Row, Statement, Transaction, statement, tenant_transaction
from memory.vectors.answer import Asked, ask, found, nothing_there, nothing_to_ask
from memory.vectors.embedder import Embedder, Vectors
from memory.vectors.index import Condition, Document, Entry, Found, Generation, Put, Query
from memory.vectors.pgvector_put import EXACT_DOCUMENTS, GRAPH_DIMENSIONS, SQL, Space, entries_of, vector_text, write
from memory.vectors.pgvector_put import changes as find_changes
from memory.vectors.ranking import Candidate, Statistics, rank
from poimen.contracts.definition import LIBRARY

CANDIDATES: Final = 50
"""Documents that words, and as many that vectors bring up to be ranked."""

COMMON_SHARE: Final = 0.1
DOCUMENTS_A_TRANSACTION: Final = 200
SWEPT_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True)
class _Corpora:
    """What is searched, in the live generation."""

    numbers: list[int]
    documents: int
    mean_length: float
    graphed: bool
    space: Space


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
        for first in range(0, len(documents), DOCUMENTS_A_TRANSACTION):
            batch = documents[first : first + DOCUMENTS_A_TRANSACTION]
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
            corpora = await _searched(tx, query)
            if corpora is None or corpora.documents == 0:
                return nothing_there(asked)
            asked = self._comparable(asked, corpora)
            candidates, containing = await _candidates(tx, asked, corpora)
        statistics = Statistics(corpora.documents, corpora.mean_length, containing)
        return found(asked, rank(asked.terms, asked.vector, candidates, statistics), corpora.documents)

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

    async def close(self) -> None:
        """Give nothing up: the memory's database is not its own."""

    @property
    def _space(self) -> Space:
        return Space("", 0) if self.embedder is None else Space(self.embedder.name, self.embedder.dimension)

    def _comparable(self, asked: Asked, corpora: _Corpora) -> Asked:
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
        vectors: dict[str, Vectors] = {}
        while True:
            async with tenant_transaction(self.pool, batch[0].tenant, deadline_seconds=seconds) as tx:
                changes = await find_changes(tx, entries, self._space)
                missing = changes.without_vector(vectors) if self.embedder is not None else []
                if not missing:
                    write(tx, changes, vectors)
            if not missing:
                break
            # Outside of the transaction, for it takes its time; what is there already by then was never embedded.
            vectors |= await self._embedded(missing)
        await self._sweep(batch[0].tenant, seconds)
        newest = {id(entry.document) for entry in entries}
        stored = changes.stored
        return [
            Put(one.id, "stored" if id(one) in newest and (one.scope, one.id) in stored else "older") for one in batch
        ]

    async def _embedded(self, texts: Sequence[str]) -> Mapping[str, Vectors]:
        assert self.embedder is not None
        return dict(zip(texts, await self.embedder.embed(texts), strict=True))

    async def _sweep(self, tenant: str, seconds: float) -> None:
        async with tenant_transaction(self.pool, tenant, deadline_seconds=seconds, durable=False) as tx:
            swept = await tx.row(SQL["sweep"], limit=SWEPT_AT_ONCE)
            if swept is None:
                return
            if swept["corpus"] is None:
                tx.defer(SQL["sweep_generation"], number=swept["number"])
            elif swept["documents"] < SWEPT_AT_ONCE:
                tx.defer(SQL["sweep_corpus"], corpus=swept["corpus"])


def _other_embedder(name: str) -> str:
    made = f"vectors of {name}" if name else "no vectors"
    return f"the index has {made}: run poimen rebuild --index"


async def _searched(tx: Transaction, query: Query) -> _Corpora | None:
    planned, rows = await tx.gather(
        statement(SQL["plan_searches"]), statement(SQL["live_corpora"], scopes=sorted({query.scope, LIBRARY}))
    )
    if planned[0]["iterative_scan"] != "relaxed_order":
        raise SchemaDiffers("The database's pgvector does not follow its graph as asked; install 0.8 or newer.")
    if not rows:
        return None
    held = [row for row in rows if row["corpus"] is not None]
    documents = sum(row["documents"] for row in held)
    return _Corpora(
        [row["corpus"] for row in held],
        documents,
        max(sum(row["total_length"] for row in held) / max(documents, 1), 1.0),
        any(row["graphed"] for row in held),
        Space(rows[0]["embedder"], rows[0]["dimension"]),
    )


async def _candidates(tx: Transaction, asked: Asked, corpora: _Corpora) -> tuple[list[Candidate], dict[str, int]]:
    terms = list(asked.terms)
    containing: dict[str, int] = {}
    if corpora.documents > EXACT_DOCUMENTS and asked.vector is not None:
        # What a tenth of a large scope has tells little and costs most; meaning makes up for it.
        rows = await tx.rows(SQL["containing"], corpora=corpora.numbers, terms=terms)
        containing = {row["term"]: row["documents"] for row in rows}
        terms = [term for term in terms if containing.get(term, 0) <= corpora.documents * COMMON_SHARE]
    (words, *near) = await tx.gather(*_asked_of_postgres(asked, corpora, terms))
    places = dict.fromkeys(zip(words[0]["corpora"], words[0]["documents"], strict=True))
    places |= dict.fromkeys((row["corpus"], row["document"]) for rows in near for row in rows)
    containing = words[0]["containing"] | containing
    (rows,) = await tx.gather(
        statement(
            SQL["candidates"],
            corpora=[corpus for corpus, _ in places],
            documents=[document for _, document in places],
            terms=list(asked.terms),
            meant=asked.vector is not None,
        ),
        last=True,
    )
    return _read(rows[0], corpora.space.dimension), containing


def _asked_of_postgres(asked: Asked, corpora: _Corpora, terms: Sequence[str]) -> list[Statement]:
    values: dict[str, Any] = {"corpora": corpora.numbers, "candidates": CANDIDATES, **_filters(asked.query)}
    by_words = statement(
        SQL["best_by_words"],
        **values,
        terms=terms,
        documents=corpora.documents,
        mean_length=corpora.mean_length,
    )
    if asked.vector is None:
        return [by_words]
    values["vector"] = vector_text(asked.vector)
    statements = [by_words, statement(SQL["nearest"], **values)]
    if corpora.graphed:
        statements.append(statement(NEAREST_IN_GRAPH[corpora.space.dimension], **values))
    return statements


def _filters(query: Query) -> dict[str, object]:
    return {
        "filtered": bool(query.kinds or query.levels or query.not_before),
        "kinds": list(query.kinds),
        "levels": list(query.levels),
        "not_before": query.not_before,
    }


def _read(row: Row, dimension: int) -> list[Candidate]:
    vectors = np.frombuffer(row["vectors"], ">f4").astype(np.float32).reshape(-1, max(dimension, 1))
    following = iter(vectors)
    return [
        Candidate(item, frequencies, length, next(following) if embedded else None)
        for item, length, frequencies, embedded in row["documents"]
    ]


def _graphs() -> dict[int, LiteralString]:
    # A type's modifier cannot be a parameter, and an index is only used for an expression that is its own.
    query = SQL["nearest_in_graph"]
    spelled: dict[int, LiteralString] = {
        256: "256", 384: "384", 512: "512", 768: "768", 1024: "1024", 1536: "1536", 2048: "2048", 3072: "3072",
    }  # fmt: skip
    return {dimension: query.replace("384", spelled[dimension]) for dimension in GRAPH_DIMENSIONS}


NEAREST_IN_GRAPH: Final = _graphs()
