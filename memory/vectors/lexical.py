"""Tier 2 in Postgres, by words alone: BM25 over a scope's own items and the library's."""

from dataclasses import dataclass, replace
from math import log10
from typing import Final

from memory.postgres.pool import Pool
from memory.postgres.queries import load_queries
from memory.postgres.transaction import Row, statement, tenant_transaction
from memory.vectors.index import Condition, Document, Found, Hit, Query
from memory.vectors.tokens import terms
from poimen.contracts.definition import LIBRARY

SQL = load_queries(__package__, "lexical.sql")
MOST_QUERY_TERMS: Final = 64


@dataclass(frozen=True, slots=True)
class LexicalIndex:
    """A VectorIndex without vectors; it needs nothing beside the memory's own database."""

    pool: Pool

    async def index(self, document: Document, *, deadline_seconds: float) -> bool:
        """Store the document; return False when the same or a newer version is there."""
        counted = terms(document.text) if document.state == "active" else {}
        place = {"scope": document.scope, "item_id": document.id}
        async with tenant_transaction(self.pool, document.tenant, deadline_seconds=deadline_seconds) as tx:
            put = await tx.row(
                SQL["put_document"],
                **place,
                kind=document.kind,
                level=document.level,
                state=document.state,
                length=sum(counted.values()),
                version=document.version,
            )
            if put is None:
                return False
            tx.defer(SQL["drop_postings"], **place)
            tx.defer(SQL["put_postings"], **place, terms=list(counted), frequencies=list(counted.values()))
        return True

    async def remove(self, tenant: str, scope: str, item_id: str, version: int, *, deadline_seconds: float) -> bool:
        """Leave a tombstone of this version; return False when the same or a newer version is there."""
        tombstone = Document(
            tenant=tenant,
            scope=scope,
            id=item_id,
            kind="fact",
            level="L1",
            text="",
            version=version,
            state="retired",
        )
        return await self.index(tombstone, deadline_seconds=deadline_seconds)

    async def search(self, query: Query, *, deadline_seconds: float) -> Found:
        """Give the active items that share words with the query, or none with a reason."""
        # The commonest terms of a long query first; ties by the term, so that the choice is always the same.
        counted = sorted(terms(query.text).items(), key=lambda entry: (-entry[1], entry[0]))
        wanted = [term for term, _ in counted[:MOST_QUERY_TERMS]]
        if not wanted:
            return Found(empty_reason="no_evidence", empty_because="the query has no words to search by")
        async with tenant_transaction(self.pool, query.tenant, deadline_seconds=deadline_seconds) as tx:
            asked = statement(
                SQL["search"],
                scopes=sorted({query.scope, LIBRARY}),
                terms=wanted,
                kinds=list(query.kinds),
                limit=query.limit,
            )
            (rows,) = await tx.gather(asked, last=True)
        return _found(rows, query.scope)

    async def health(self, tenant: str, *, deadline_seconds: float) -> Condition:
        """Say whether the tables answer."""
        async with tenant_transaction(self.pool, tenant, deadline_seconds=deadline_seconds) as tx:
            await tx.row(SQL["ping"])
        return Condition("ok", "search by words answers; vectors are not installed")


def least_coverage(documents: int) -> float:
    """Give the share of the query, by weight, that the best hit must cover; it grows with the items searched.

    A flat threshold would leave small scopes without answers.
    """
    return min(0.36, 0.14 + 0.08 * log10(max(documents, 1)))


def _found(rows: list[Row], scope: str) -> Found:
    documents = int(rows[0]["documents"])
    ranked = [row for row in rows if row["item_id"] is not None]
    if documents == 0:
        return Found(empty_reason="no_evidence", empty_because=f"nothing is on record in {scope}")
    nothing = Found(searched=documents, empty_reason="below_threshold")
    if not ranked:
        return replace(nothing, empty_because=f"none of {documents} items has a word of the query")
    covered, least = ranked[0]["covered"] / ranked[0]["perfect"], least_coverage(documents)
    if covered < least:
        because = f"the best of {documents} items covers {covered:.2f} of the query, below {least:.2f}"
        return replace(nothing, empty_because=because)
    hits = tuple(
        # 1 is a document of average length that has every term once.
        Hit(row["item_id"], round(min(1.0, row["score"] / row["perfect"]), 4), tuple(row["terms"]))
        for row in ranked
    )
    return Found(hits, documents)
