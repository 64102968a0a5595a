"""The usual measures of a ranking, of one question and of many; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from statistics import fmean
from typing import Final

DEPTH: Final = 10


@dataclass(frozen=True, slots=True)
class Scores:
    """Of a ranking, each from 0 to 1: nDCG@10 (an answer counts less further down), R@5 and R@10, MRR@10."""

    ndcg: float
    recall_5: float
    recall_10: float
    mrr: float


def score(ranked: Sequence[str], relevant: frozenset[str]) -> Scores:
    """Score the first ten of a ranking against the ids of all right answers, of which there is one at least."""
    found = [item in relevant for item in ranked[:DEPTH]]
    ideal = sum(1 / log2(place + 2) for place in range(min(DEPTH, len(relevant))))
    return Scores(
        ndcg=sum(1 / log2(place + 2) for place, right in enumerate(found) if right) / ideal,
        recall_5=sum(found[:5]) / len(relevant),
        recall_10=sum(found) / len(relevant),
        mrr=next((1 / (place + 1) for place, right in enumerate(found) if right), 0.0),
    )


def mean(scores: Sequence[Scores]) -> Scores:
    """Give the plain mean of each measure."""
    return Scores(
        fmean(one.ndcg for one in scores),
        fmean(one.recall_5 for one in scores),
        fmean(one.recall_10 for one in scores),
        fmean(one.mrr for one in scores),
    )


def at_share(values: Sequence[float], share: float) -> float:
    """Give the value that this share of all lies below, as p95 does for 0.95."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]
