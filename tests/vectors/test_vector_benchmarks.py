import numpy as np
import pytest

from benchmarks.peers import MEASURES, compare
from benchmarks.vector_costs import MadeBefore, texts


def figures(value: float) -> dict[str, float]:
    return dict.fromkeys(MEASURES, value)


def test_ours_is_divided_by_the_best_peer_of_each_set_and_by_the_best_mean() -> None:
    ours = {"code": figures(0.9), "talk": figures(0.6)}
    peers = {
        "one": {"code": figures(0.9), "talk": figures(0.3)},
        "other": {"code": figures(0.6), "talk": figures(0.4)},
    }
    ratios = compare(ours, peers)
    assert ratios["code"]["ndcg@10"] == 1
    assert ratios["talk"]["ndcg@10"] == 1.5
    assert ratios["mean"]["ndcg@10"] == 1.25


def test_made_texts_are_the_same_each_time_and_near_others_of_their_topic() -> None:
    made = list(texts(3, 300, 20))
    assert made == list(texts(3, 300, 20))
    embedder = MadeBefore()
    assert np.linalg.norm(embedder.vector(made[0])) == pytest.approx(1, abs=1e-5)
    one, alike, other = (embedder.vector(text) for text in ("topic1 a", "topic1 b", "topic2 a"))
    assert one @ alike > one @ other + 0.2
