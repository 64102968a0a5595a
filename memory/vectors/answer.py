"""What every store does alike around its search: turn the query into terms and a vector, and say what was found."""

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog

from memory.errors import PoimenError
from memory.vectors.embedder import Embedder, Vectors
from memory.vectors.index import Found, Hit, Query
from memory.vectors.ranking import Ranking
from memory.vectors.tokens import LONGEST_TEXT, query_terms
from poimen.contracts.json_text import mend_surrogates

# The store must have time to answer by words, if the vector is late.
EMBEDDING_SHARE: Final = 0.5
LARGE_SCOPE_DOCUMENTS: Final = 10_000
COMMON_SHARE: Final = 0.1
"""Of a large scope; what more of its documents have tells little of any, and meaning makes up for it."""

NO_EMBEDDER: Final = "no embedder is set"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """A query as a store takes it: its different terms, its vector of length 1, or why there is none."""

    query: Query
    terms: tuple[str, ...]
    vector: Vectors | None = None
    by_words_because: str | None = None

    @property
    def empty(self) -> bool:
        """Say whether there is nothing to search by."""
        return not self.terms and self.vector is None

    def most_documents(self, documents: int) -> int:
        """Give how many of the scopes' documents may have a term that is still looked for."""
        pruned = self.vector is not None and documents > LARGE_SCOPE_DOCUMENTS
        return int(documents * COMMON_SHARE) if pruned else documents

    def by_words(self, because: str) -> "Asked":
        """Give the same query without its vector."""
        return Asked(self.query, self.terms, None, because)


async def ask(query: Query, embedder: Embedder | None, deadline_seconds: float) -> Asked:
    """Make a query ready within half of the deadline; one that cannot be embedded by then is asked by words."""
    text = clean(query.text)
    terms = query_terms(text)
    if embedder is None:
        return Asked(query, terms, None, NO_EMBEDDER)
    if not any(map(str.isalnum, text)):
        return Asked(query, terms)
    try:
        async with asyncio.timeout(deadline_seconds * EMBEDDING_SHARE):
            vectors = await embedder.embed([text])
    except (PoimenError, TimeoutError) as error:
        late = isinstance(error, TimeoutError)
        because = f"{embedder.name} did not answer in time" if late else f"{embedder.name} does not answer"
        _log.warning("A query is searched by words alone.", because=because)
        return Asked(query, terms, None, because)
    return Asked(query, terms, vectors[0])


def clean(text: str) -> str:
    """Give the part of a text that is indexed, with what no store can hold replaced."""
    return mend_surrogates(text[:LONGEST_TEXT]).replace("\0", "\u2400")


def nothing_to_ask(asked: Asked) -> Found:
    """Answer a query that has neither words nor meaning."""
    return _empty(asked, 0, "the query has no words to search by")


def nothing_there(asked: Asked) -> Found:
    """Answer a query over scopes that hold nothing."""
    return _empty(asked, 0, f"nothing is on record in {asked.query.scope}")


def found(asked: Asked, ranking: Ranking, documents: int) -> Found:
    """Answer with the best candidates, or with nothing when the best of them is about another subject."""
    if not ranking.ranked or (asked.query.cut_off and not ranking.gate.open):
        because = ranking.why_nothing(documents)
        return Found((), documents, "below_threshold", because, asked.by_words_because, ranking.statistics)
    hits = tuple(
        Hit(one.id, round(one.score, 4), one.matched, None if one.cosine is None else round(one.cosine, 4))
        for one in ranking.ranked[: asked.query.limit]
    )
    return Found(hits, documents, by_words_because=asked.by_words_because, statistics=ranking.statistics)


def _empty(asked: Asked, documents: int, because: str) -> Found:
    return Found((), documents, "no_evidence", because, asked.by_words_because)
