"""What a search must give, computed from all documents one by one."""

from collections.abc import Sequence
from math import log

from memory.vectors.index import Document, Hit
from memory.vectors.ranking import Candidate, Statistics, rank
from memory.vectors.tokens import query_terms, terms
from tests.vectors.hashed import HashedEmbedder

DEPTH = 50


class Reference:
    """Ranks the documents of the searched scopes: the 50 best by BM25 and the 50 nearest, ranked together."""

    def __init__(self, documents: Sequence[Document], embedder: HashedEmbedder | None) -> None:
        self._documents = {document.id: document for document in documents}
        self._words = {document.id: terms(document.text) for document in documents}
        self._embedder = embedder
        lengths = [words.total() for words in self._words.values()]
        self._mean_length = sum(lengths) / len(lengths)

    def hits(self, query: str, kinds: Sequence[str], limit: int) -> tuple[Hit, ...]:
        asked = query_terms(query)
        statistics = Statistics(
            len(self._documents),
            self._mean_length,
            {term: sum(term in words for words in self._words.values()) for term in asked},
        )
        allowed = [item for item, document in self._documents.items() if not kinds or document.kind in kinds]
        scores = {item: self._bm25(item, statistics) for item in allowed}
        chosen = sorted((item for item in allowed if scores[item] > 0), key=lambda item: (-scores[item], item))[:DEPTH]
        meaning = None if self._embedder is None else self._embedder.vector(query)
        if self._embedder is not None and meaning is not None:
            cosines = {item: float(self._vector(item) @ meaning) for item in allowed}
            chosen += sorted(allowed, key=lambda item: -cosines[item])[:DEPTH]
        candidates = [self._candidate(item) for item in dict.fromkeys(chosen)]
        ranking = rank(asked, meaning, candidates, statistics)
        if not ranking.gate.open:
            return ()
        return tuple(
            Hit(one.id, round(one.score, 4), one.matched, None if one.cosine is None else round(one.cosine, 4))
            for one in ranking.ranked[:limit]
        )

    def _bm25(self, item: str, statistics: Statistics) -> float:
        words, score = self._words[item], 0.0
        for term, documents in statistics.containing.items():
            rarity = log(1 + (statistics.documents - documents + 0.5) / (documents + 0.5))
            slack = 1.2 * (0.25 + 0.75 * words.total() / statistics.mean_length)
            score += rarity * words[term] * 2.2 / (words[term] + slack)
        return score

    def _vector(self, item: str):  # type: ignore[no-untyped-def]
        assert self._embedder is not None
        return self._embedder.vector(self._documents[item].text)

    def _candidate(self, item: str) -> Candidate:
        vector = None if self._embedder is None else self._vector(item)
        return Candidate(item, self._words[item], self._words[item].total(), vector)
