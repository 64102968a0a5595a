import numpy as np
import pytest

from memory.vectors.ranking import Candidate, Statistics, least_value, rank


def test_the_least_value_grows_with_the_items_searched_and_then_stays() -> None:
    values = [least_value(documents) for documents in (0, 1, 3, 10, 100, 1_000, 5_000, 100_000)]
    assert values == sorted(values)
    assert values[:2] == [0.09, 0.09]
    assert values[4] - values[3] == pytest.approx(values[5] - values[4])
    assert values[-2:] == [0.40, 0.40]


@pytest.mark.parametrize(("cosine", "is_open"), [(0.8, True), (0.2, False)])
def test_the_gate_weighs_cosine_and_coverage_of_the_best(cosine: float, is_open: bool) -> None:
    away = float(np.sqrt(1 - cosine**2))
    best = Candidate("best", {"lock": 1}, 10, np.array([cosine, away], np.float32))
    statistics = Statistics(1_000, 10.0, {"lock": 10})
    gate = rank(("lock", "zebra", "quartz"), np.array([1, 0], np.float32), [best], statistics).gate
    assert gate.value == pytest.approx(0.6 * cosine + 0.4 * gate.coverage)
    assert gate.least == least_value(1_000)
    assert gate.open is is_open


def test_a_closed_gate_says_what_it_compared() -> None:
    best = Candidate("best", {"lock": 1}, 10, np.array([0.1, 1], np.float32))
    ranking = rank(("lock", "zebra"), np.array([1, 0], np.float32), [best], Statistics(40, 10.0, {"lock": 30}))
    assert ranking.why_nothing(40) == (
        "the best of 40 items comes to 0.08, below 0.23 "
        "(cosine 0.10, its words cover 0.06 of the query; terms in common: lock)"
    )


def test_no_candidate_at_all_is_said_as_such() -> None:
    ranking = rank(("zebra",), None, [], Statistics(40, 10.0, {}))
    assert ranking.why_nothing(40) == "none of 40 items has a word of the query"
