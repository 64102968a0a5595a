"""Rank candidates by words and meaning together, the same for every store; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memory.vectors.embedder import Vectors


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
    """A candidate with its scores: fused (0 to 1), by words, and cosine if both sides have a vector."""

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
        return self.value >= self.least


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates, best first (ties by id), and whether the best is good enough to be an answer."""

    ranked: tuple[Ranked, ...]
    gate: Gate


def rank(
    terms: Sequence[str], query_vector: Vectors | None, candidates: Sequence[Candidate], statistics: Statistics
) -> Ranking:
    """Fuse words and meaning over the union of candidates; without a query vector rank by words alone."""
    raise NotImplementedError
