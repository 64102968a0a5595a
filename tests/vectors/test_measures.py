import math

import pytest

from memory.vectors.evaluation.measures import Scores, at_share, mean, score


def test_a_perfect_ranking_has_one_in_every_measure() -> None:
    assert score(["a", "b", "c"], frozenset("ab")) == Scores(1, 1, 1, 1)


def test_an_answer_counts_less_further_down() -> None:
    got = score(["x", "a", "y", "z", "w", "b"], frozenset("ab"))
    ideal = 1 + 1 / math.log2(3)
    assert got.ndcg == pytest.approx((1 / math.log2(3) + 1 / math.log2(7)) / ideal)
    assert (got.recall_5, got.recall_10, got.mrr) == (0.5, 1, 0.5)


def test_only_the_first_ten_count() -> None:
    assert score([*"0123456789", "a"], frozenset("a")) == Scores(0, 0, 0, 0)
    assert score([], frozenset("a")) == Scores(0, 0, 0, 0)
    assert score([str(at) for at in range(12)], frozenset(str(at) for at in range(12))).ndcg == 1


def test_means_and_shares() -> None:
    assert mean([Scores(1, 1, 1, 1), Scores(0, 0.5, 1, 0)]) == Scores(0.5, 0.75, 1, 0.5)
    assert at_share([3.0, 1.0, 2.0], 0.5) == 2
    assert at_share(list(map(float, range(100))), 0.95) == 95
    assert at_share([1.0], 0.95) == 1
