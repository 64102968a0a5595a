"""Read your writes: what was learned and is not in the index yet is found all the same, straight from Postgres."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import structlog

from memory.aside import aside
from memory.errors import StoreUnavailable
from memory.journal.follow import cursor_of
from memory.postgres import Transaction, load_queries
from memory.vectors.documents import document
from memory.vectors.index import Document, Found, Hit, Query, VectorIndex
from memory.vectors.project import FOLLOWER
from memory.vectors.ranking import Candidate, Statistics, rank
from memory.vectors.tokens import query_terms, terms
from poimen.contracts.definition import LIBRARY

SQL = load_queries(__package__, "recent.sql")
_log = structlog.get_logger(__name__)
MOST_RECENT: Final = 64
# What was learned last must have time to be read, if the index is silent.
INDEX_SHARE: Final = 0.75
_NEARLY_SECONDS: Final = 0.01


async def ask_index(index: VectorIndex, query: Query, seconds: float) -> Found:
    """Give what the index finds; one that does not answer finds nothing, and what is recent can still be read."""
    share = seconds * INDEX_SHARE
    ends_at = time.monotonic() + share
    try:
        return await index.search(query, deadline_seconds=share)
    except StoreUnavailable as error:
        late = time.monotonic() >= ends_at - _NEARLY_SECONDS
        _log.warning("The index did not answer; only what it has still to follow is searched.", error=str(error))
        because = f"the index of knowledge is {'late' if late else 'down'}"
        return Found((), 0, "deadline" if late else "tier_down", because, because, status="late" if late else "down")


async def with_recent(tx: Transaction, query: Query, found: Found) -> Found:
    """Give what the index found together with what it has still to follow, which is compared by words alone."""
    cursor = await cursor_of(tx, FOLLOWER)
    rows = await tx.rows(
        SQL["recent_items"],
        scopes=sorted({query.scope, LIBRARY}),
        kinds=list(query.kinds),
        levels=list(query.levels),
        not_before=query.not_before,
        limit=MOST_RECENT,
        **cursor,
    )
    known = {hit.id for hit in found.hits}
    recent = [one for one in map(document, rows) if one.id not in known]
    if not recent:
        return found
    cost = sum(len(one.text) for one in recent)
    hits = await aside(cost, _hits, query, recent, found.statistics)
    if not hits:
        return found
    both = sorted((*found.hits, *hits), key=lambda hit: (-hit.score, hit.id))
    searched = found.searched + len(recent)
    return replace(found, hits=tuple(both[: query.limit]), searched=searched, empty_reason=None, empty_because=None)


def _hits(query: Query, recent: Sequence[Document], indexed: Statistics | None) -> list[Hit]:
    wanted = query_terms(query.text)
    counted = [(one.id, terms(one.text)) for one in recent]
    candidates = [
        Candidate(item, {term: found[term] for term in wanted if term in found}, found.total())
        for item, found in counted
    ]
    statistics = _together(wanted, [found for _, found in counted], indexed or Statistics(0, 0.0, {}))
    ranking = rank(wanted, None, candidates, statistics)
    if not wanted or not ranking.gate.open:
        return []
    return [Hit(one.id, round(one.score, 4), one.matched) for one in ranking.ranked if one.matched][: query.limit]


def _together(wanted: Sequence[str], recent: Sequence[Counter[str]], indexed: Statistics) -> Statistics:
    """Count the recent among the others of their scopes, so that a word is no rarer here than there."""
    documents = indexed.documents + len(recent)
    length = indexed.documents * indexed.mean_length + sum(words.total() for words in recent)
    containing = {term: indexed.containing.get(term, 0) + sum(term in words for words in recent) for term in wanted}
    return Statistics(documents, length / documents, containing)
