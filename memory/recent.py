"""Read your writes: what was learned and is not in the index yet is found all the same, straight from Postgres."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from memory.aside import aside
from memory.journal.follow import cursor_of
from memory.postgres import Transaction, load_queries
from memory.vectors.documents import document
from memory.vectors.index import Document, Found, Hit, Query
from memory.vectors.project import FOLLOWER
from memory.vectors.ranking import Candidate, Statistics, rank
from memory.vectors.tokens import query_terms, terms
from poimen.contracts.definition import LIBRARY

SQL = load_queries(__package__, "recent.sql")
MOST_RECENT: Final = 64


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
    hits = await aside(cost, _hits, query, recent, found.searched)
    if not hits:
        return found
    both = sorted((*found.hits, *hits), key=lambda hit: (-hit.score, hit.id))
    searched = found.searched + len(recent)
    return replace(found, hits=tuple(both[: query.limit]), searched=searched, empty_reason=None, empty_because=None)


def _hits(query: Query, recent: Sequence[Document], searched: int) -> list[Hit]:
    wanted = query_terms(query.text)
    counted = [(one.id, terms(one.text)) for one in recent]
    candidates = [
        Candidate(item, {term: found[term] for term in wanted if term in found}, found.total())
        for item, found in counted
    ]
    containing = {term: sum(term in found for _, found in counted) for term in wanted}
    mean_length = sum(one.length for one in candidates) / len(candidates)
    # Beside the others of the scope, so that a word is no rarer here than there.
    statistics = Statistics(max(searched, 0) + len(recent), mean_length, containing)
    ranking = rank(wanted, None, candidates, statistics)
    if not wanted or not ranking.gate.open:
        return []
    return [Hit(one.id, round(one.score, 4), one.matched) for one in ranking.ranked if one.matched][: query.limit]
