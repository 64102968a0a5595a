"""Rank candidates by words and meaning together, the same for every store; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, log, log10
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.vectors.embedder import Vectors
from memory.vectors.tokens import FUNCTION_TERMS

# Okapi BM25's usual constants: how soon repeating a term stops to count, and how much length does.
SATURATION: Final = 1.2
LENGTH_SHARE: Final = 0.75
FUNCTION_WORD_WEIGHT: Final = 0.25
# Rare terms count more than in BM25, where a question's many common words outweigh its one name.
RARITY_POWER: Final = 1.5
FEEDBACK_DOCUMENTS: Final = 3
FEEDBACK_WEIGHT: Final = 0.4
GATE_COSINE_SHARE: Final = 0.6

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the searched scopes hold: active documents, their mean length in terms, how many have each query term."""

    documents: int
    mean_length: float
    containing: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document that words or vectors brought up: how often it has each query term, its length in terms, a vector."""

    id: str
    frequencies: Mapping[str, int]
    length: int
    vector: Vectors | None = None


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its scores: fused (0 to 1), by words, and cosine if both sides have a vector.

    By words, 1 is a document of average length that has every term once; without any vector it is the score too.
    """

    id: str
    score: float
    words: float
    cosine: float | None
    matched: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether the best candidate is about the query's subject: its value against the least that counts."""

    value: float
    least: float
    cosine: float | None
    coverage: float

    @property
    def open(self) -> bool:
        """Say whether the best candidate is an answer."""
        return self.value >= self.least


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates, best first (ties by id), and whether the best is good enough to be an answer."""

    ranked: tuple[Ranked, ...]
    gate: Gate
    statistics: Statistics = field(compare=False)

    def why_nothing(self, documents: int) -> str:
        """Say in a sentence why a closed gate lets nothing through."""
        if not self.ranked:
            return f"none of {documents} items has a word of the query"
        compared = f"its words cover {self.gate.coverage:.2f} of the query"
        if self.gate.cosine is not None:
            compared = f"cosine {self.gate.cosine:.2f}, {compared}"
        matched = ", ".join(self.ranked[0].matched) or "none"
        return (
            f"the best of {documents} items comes to {self.gate.value:.2f}, below {self.gate.least:.2f} "
            f"({compared}; terms in common: {matched})"
        )


@dataclass(frozen=True, slots=True)
class _Words:
    """What words say: each term's plain weight, and each candidate's score, against that of a perfect match."""

    weights: Mapping[str, float]
    scores: Numbers
    perfect: float


def least_value(documents: int) -> float:
    """Give the least gate value that is an answer; it grows with the items searched, up to some 4,400.

    The best of many unrelated items is nearer by chance than the best of few, by about the same step for each tenfold.
    """
    return min(0.40, 0.09 + 0.085 * log10(max(documents, 1)))


def rank(
    terms: Sequence[str], query_vector: Vectors | None, candidates: Sequence[Candidate], statistics: Statistics
) -> Ranking:
    """Fuse words and meaning over the union of candidates; without a query vector rank by words alone.

    `terms` are the query's, each once. The lengths of vectors do not matter; one without a direction is as none.
    """
    in_order = sorted(candidates, key=lambda candidate: candidate.id)
    words = _by_words(terms, in_order, statistics)
    vectors, known = _directions(query_vector, in_order)
    fused = _fused(words, vectors, known)
    # A stable sort of what is in the order of ids: equal scores stay in it.
    order = np.argsort(-fused, kind="stable")
    cosines = vectors[1:] @ vectors[0]
    ranked = tuple(
        _ranked(in_order[at], float(fused[at]), float(cosines[at]) if known[at] else None, at, words) for at in order
    )
    return Ranking(ranked, _gate(ranked, words.weights, statistics.documents), statistics)


def _by_words(terms: Sequence[str], candidates: Sequence[Candidate], statistics: Statistics) -> _Words:
    wanted = list(dict.fromkeys(terms))
    function_words = FUNCTION_TERMS.intersection(wanted)
    lower = function_words if len(function_words) < len(wanted) else frozenset[str]()
    rarity = np.array([_rarity(statistics.containing.get(term, 0), statistics.documents) for term in wanted])
    importance = np.array([FUNCTION_WORD_WEIGHT if term in lower else 1.0 for term in wanted])
    counts = _counts(wanted, candidates)
    lengths = np.array([one.length for one in candidates], float)
    relative = lengths / statistics.mean_length if statistics.mean_length > 0 else np.ones(len(candidates))
    slack = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * relative)
    saturated = counts * (1 + SATURATION) / np.maximum(counts + slack[:, None], 1e-9)
    strength = importance * rarity**RARITY_POWER
    weights = dict(zip(wanted, (importance * rarity).tolist(), strict=True))
    return _Words(weights, saturated @ strength, float(strength.sum()))


def _counts(wanted: Sequence[str], candidates: Sequence[Candidate]) -> Numbers:
    # Of a long query's terms each candidate has a few: to ask for each of them costs more than all the rest.
    column = {term: at for at, term in enumerate(wanted)}
    counts = np.zeros((len(candidates), len(wanted)))
    for row, one in enumerate(candidates):
        for term, frequency in one.frequencies.items():
            if term in column:
                counts[row, column[term]] = frequency
    return counts


def _rarity(containing: int, documents: int) -> float:
    # Counts that were taken a moment apart may disagree: no term is in more documents than there are.
    return log(1 + (max(documents - containing, 0) + 0.5) / (containing + 0.5))


def _directions(query_vector: Vectors | None, candidates: Sequence[Candidate]) -> tuple[Numbers, NDArray[np.bool_]]:
    """Give unit rows, the query's first, zeros for a missing one; and which candidates can be compared by meaning."""
    if query_vector is None:
        return np.zeros((len(candidates) + 1, 0)), np.zeros(len(candidates), bool)
    nothing = np.zeros(len(query_vector))
    given = [query_vector, *(nothing if one.vector is None else one.vector for one in candidates)]
    rows = np.array(given, np.float64)
    norms = np.linalg.norm(rows, axis=1)
    usable = np.isfinite(norms) & (norms > 0)
    rows[~usable] = 0
    return rows / np.where(usable, norms, 1)[:, None], usable[1:] & usable[0]


def _fused(words: _Words, vectors: Numbers, known: NDArray[np.bool_]) -> Numbers:
    if not known.any():
        return np.minimum(words.scores / words.perfect, 1) if words.perfect > 0 else words.scores
    by_words = words.scores / max(float(words.scores.max()), 1e-9)
    weight = _meaning_weight(words.scores)
    cosines = vectors[1:] @ vectors[0]
    first = _weighed(weight, by_words, cosines, known)
    nearest = np.argsort(-np.where(known, first, -np.inf), kind="stable")[: min(FEEDBACK_DOCUMENTS, int(known.sum()))]
    # What resembles the best finds is likelier to be one: it says the same in words that the query lacks.
    feedback = (vectors[1:] @ vectors[1:][nearest].T).mean(axis=1)
    return _weighed(weight, by_words, (cosines + FEEDBACK_WEIGHT * feedback) / (1 + FEEDBACK_WEIGHT), known)


def _weighed(weight: float, by_words: Numbers, cosines: Numbers, known: NDArray[np.bool_]) -> Numbers:
    """Add both scores, each divided by its largest; an unknown cosine counts as the average of the known."""
    filled = np.where(known, cosines, cosines[known].mean())
    largest = float(filled.max())
    # If nothing points the query's way, meaning has no say.
    by_meaning = np.maximum(filled / largest, 0) if largest > 0 else np.zeros(len(filled))
    return (1 - weight) * by_words + weight * by_meaning


def _meaning_weight(scores: Numbers) -> float:
    """Give the share of meaning: the fewer candidates stand out by words (skewness), the more it counts."""
    away = scores - scores.mean()
    spread = float((away**2).mean())
    # Rounding leaves a trace of spread in equal scores, which would come out as any skewness.
    equal = spread <= 1e-12 * float((scores**2).mean())
    skewness = 0.0 if equal else float((away**3).mean()) / spread**1.5
    return min(max(0.85 - 0.12 * skewness, 0.4), 0.9)


def _ranked(candidate: Candidate, score: float, cosine: float | None, at: int, words: _Words) -> Ranked:
    matched = [term for term, frequency in candidate.frequencies.items() if frequency > 0 and term in words.weights]
    matched.sort(key=lambda term: (-words.weights[term], term))
    by_words = min(float(words.scores[at]) / words.perfect, 1.0) if words.perfect > 0 else 0.0
    return Ranked(candidate.id, min(max(score, 0.0), 1.0), by_words, cosine, tuple(matched))


def _gate(ranked: Sequence[Ranked], weights: Mapping[str, float], documents: int) -> Gate:
    least = least_value(documents)
    if not ranked:
        return Gate(0.0, least, None, 0.0)
    best = ranked[0]
    perfect = sum(weights.values())
    coverage = sum(weights[term] for term in best.matched) / perfect if perfect > 0 else 0.0
    return Gate(_gate_value(best.cosine, coverage, worded=bool(weights)), least, best.cosine, coverage)


def _gate_value(cosine: float | None, coverage: float, *, worded: bool) -> float:
    """Weigh cosine and coverage; where one of them cannot be known the other stands alone."""
    if cosine is None or not isfinite(cosine):
        return coverage
    if not worded:
        return cosine
    return GATE_COSINE_SHARE * cosine + (1 - GATE_COSINE_SHARE) * coverage
