import math
import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.vectors.embedder import Vectors
from memory.vectors.ranking import Candidate, Ranking, Statistics, rank

TERMS = ("lock", "stale", "how")
SOME = Statistics(documents=40, mean_length=10.0, containing={"lock": 4, "stale": 1, "how": 30})


def vector(*numbers: float) -> Vectors:
    return np.array(numbers, np.float32)


def one(name: str, *, vector: Vectors | None = None, length: int = 10, **frequencies: int) -> Candidate:
    return Candidate(name, frequencies, length, vector)


def ids(ranking: Ranking) -> list[str]:
    return [ranked.id for ranked in ranking.ranked]


def small_vectors() -> st.SearchStrategy[Vectors]:
    return st.lists(st.integers(-3, 3), min_size=3, max_size=3).map(lambda numbers: vector(*numbers))


@st.composite
def candidate_lists(draw: st.DrawFn) -> list[Candidate]:
    names = draw(st.lists(st.integers(0, 99), max_size=8, unique=True))
    counts = st.dictionaries(st.sampled_from(TERMS), st.integers(0, 5))
    return [
        Candidate(f"i{name:02}", draw(counts), draw(st.integers(0, 50)), draw(st.none() | small_vectors()))
        for name in names
    ]


def asked(test: Callable[..., None]) -> Callable[..., None]:
    """Try the test with many sets of candidates, with and without vectors, words and the query's vector."""
    strategies = {"candidates": candidate_lists(), "query": st.none() | small_vectors(), "seed": st.integers()}
    return settings(max_examples=40, deadline=None)(given(**strategies)(test))


@asked
def test_every_candidate_comes_out_once_best_first_with_ties_by_id(
    candidates: list[Candidate], query: Vectors | None, seed: int
) -> None:
    ranking = rank(TERMS, query, candidates, SOME)
    assert sorted(ids(ranking)) == sorted(candidate.id for candidate in candidates)
    assert all(0 <= ranked.score <= 1 and math.isfinite(ranked.score) for ranked in ranking.ranked)
    keys = [(-ranked.score, ranked.id) for ranked in ranking.ranked if 0 < ranked.score < 1]
    assert keys == sorted(keys)


@asked
def test_the_order_of_candidates_changes_nothing(candidates: list[Candidate], query: Vectors | None, seed: int) -> None:
    shuffled = random.Random(seed).sample(candidates, len(candidates))
    assert rank(TERMS, query, shuffled, SOME) == rank(TERMS, query, candidates, SOME)


@asked
def test_the_length_of_vectors_changes_nothing(candidates: list[Candidate], query: Vectors | None, seed: int) -> None:
    # Powers of two, so that rounding is the same.
    factor = random.Random(seed)
    longer = [
        Candidate(
            got.id, got.frequencies, got.length, None if got.vector is None else got.vector * 2 ** factor.randint(-4, 4)
        )
        for got in candidates
    ]
    assert rank(TERMS, None if query is None else query * 8, longer, SOME) == rank(TERMS, query, candidates, SOME)


@asked
def test_documents_twice_as_long_among_such_change_nothing(
    candidates: list[Candidate], query: Vectors | None, seed: int
) -> None:
    longer = [Candidate(got.id, got.frequencies, got.length * 2, got.vector) for got in candidates]
    doubled = Statistics(SOME.documents, SOME.mean_length * 2, SOME.containing)
    assert rank(TERMS, query, longer, doubled) == rank(TERMS, query, candidates, SOME)


@asked
def test_a_zero_vector_is_as_none(candidates: list[Candidate], query: Vectors | None, seed: int) -> None:
    zeros = [
        Candidate(got.id, got.frequencies, got.length, vector(0, 0, 0) if got.vector is None else got.vector)
        for got in candidates
    ]
    assert rank(TERMS, query, zeros, SOME) == rank(TERMS, query, candidates, SOME)


@pytest.mark.parametrize("query", [None, vector(1, 0)])
@pytest.mark.parametrize("terms", [(), TERMS])
def test_nothing_to_rank_is_no_answer(terms: Sequence[str], query: Vectors | None) -> None:
    ranking = rank(terms, query, [], Statistics(0, 0.0, {}))
    assert ranking.ranked == ()
    assert not ranking.gate.open
    assert ranking.gate.cosine is None


def test_a_query_without_terms_is_ranked_and_gated_by_meaning() -> None:
    near, far = one("b", vector=vector(1, 0.1)), one("a", vector=vector(0.1, 1))
    ranking = rank((), vector(1, 0), [near, far], Statistics(2, 5.0, {}))
    assert ids(ranking) == ["b", "a"]
    assert ranking.gate.value == ranking.gate.cosine == ranking.ranked[0].cosine


def test_equal_words_leave_the_order_to_meaning() -> None:
    candidates = [one(name, lock=1, vector=vector(1, at)) for at, name in enumerate("dcba")]
    ranking = rank(TERMS, vector(1, 0), candidates, SOME)
    assert ids(ranking) == ["d", "c", "b", "a"]
    assert {ranked.words for ranked in ranking.ranked} == {ranking.ranked[0].words}


def test_a_rare_term_outweighs_a_common_one_and_a_function_word() -> None:
    candidates = [one("common", lock=1), one("function", how=9), one("rare", stale=1)]
    ranking = rank(TERMS, None, candidates, SOME)
    assert ids(ranking) == ["rare", "common", "function"]


def test_a_query_of_function_words_alone_counts_them_in_full() -> None:
    few = Statistics(9, 10.0, {"how": 1})
    assert rank(("how",), None, [one("a", how=1)], few).ranked[0].score == pytest.approx(1)
    assert rank(("how",), None, [one("a", how=1)], few).gate.coverage == 1


def test_words_without_vectors_are_gated_by_their_coverage() -> None:
    ranking = rank(TERMS, None, [one("a", lock=1, stale=1), one("b", how=1)], SOME)
    assert ranking.gate.value == ranking.gate.coverage
    assert ranking.gate.open
    assert not rank(("zebra", "quartz", "nebula", "violin", "how"), None, [one("b", how=1)], SOME).gate.open


def test_terms_that_nothing_has_count_against_coverage() -> None:
    some = rank(("lock",), None, [one("a", lock=1)], SOME).gate
    more = rank(("lock", "zebra"), None, [one("a", lock=1)], SOME).gate
    assert some.coverage == 1
    assert 0 < more.coverage < 0.5


def test_a_candidate_without_a_vector_is_not_lost_for_it() -> None:
    neighbours = [one(f"n{at}", vector=vector(1, 0.2 * at)) for at in range(5)]
    ranking = rank(TERMS, vector(1, 0), [*neighbours, one("x", lock=1, stale=1)], SOME)
    assert ids(ranking)[0] == "x"
    assert ranking.ranked[0].cosine is None
    assert ranking.gate.value == ranking.gate.coverage
    # It stands between the nearest and the farthest neighbour when it has no word of the query either.
    assert ids(rank(TERMS, vector(1, 0), [*neighbours, one("x")], SOME)) not in (["x", "n0"], ["n4", "x"])


@pytest.mark.parametrize("broken", [vector(math.nan, 1), vector(math.inf, 0), vector(0, 0)])
def test_a_vector_without_a_direction_cannot_spoil_the_others(broken: Vectors) -> None:
    sound = [one("a", vector=vector(1, 0)), one("b", vector=vector(0, 1))]
    ranking = rank(TERMS, vector(1, 0), [*sound, one("c", vector=broken)], SOME)
    assert ids(ranking)[0] == "a"
    assert {ranked.id: ranked.cosine for ranked in ranking.ranked}["c"] is None
    assert rank(TERMS, broken, sound, SOME) == rank(TERMS, None, sound, SOME)


def test_when_nothing_points_the_querys_way_words_decide() -> None:
    candidates = [one("a", vector=vector(-1, 0.1)), one("b", lock=1, vector=vector(-1, 0))]
    assert ids(rank(TERMS, vector(1, 0), candidates, SOME)) == ["b", "a"]


def test_what_resembles_the_best_finds_is_moved_up() -> None:
    # Three documents agree on a second direction that the query lacks; of two equally near, one shares it.
    best = [one(f"best{at}", lock=2, vector=vector(1, 1, 0)) for at in range(3)]
    alike, alone = one("y", vector=vector(0.5, 1, 0)), one("x", vector=vector(0.5, 0, 1))
    assert ids(rank(TERMS, vector(1, 0, 0), [*best, alike, alone], SOME))[3:] == ["y", "x"]


def test_matched_terms_are_told_rarest_first() -> None:
    (ranked,) = rank(TERMS, None, [one("a", lock=1, stale=1, how=1)], SOME).ranked
    assert ranked.matched == ("stale", "lock", "how")


def test_counts_that_disagree_do_no_harm() -> None:
    ranking = rank(TERMS, vector(1, 0), [one("a", lock=1, vector=vector(1, 0))], Statistics(1, 0.0, {"lock": 7}))
    assert 0 <= ranking.ranked[0].score <= 1
    assert 0 <= ranking.gate.coverage <= 1
