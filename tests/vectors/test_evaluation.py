"""`poimen eval` on a real store, with a set of its own and an embedder that is the same everywhere."""

import uuid
from pathlib import Path

import pytest

from memory.errors import StoreUnavailable
from memory.vectors.evaluation import cutoff
from memory.vectors.evaluation.cutoff import mean_cutoff, measure_cutoff
from memory.vectors.evaluation.kept_vectors import KeptVectors
from memory.vectors.evaluation.question_sets import Group, Question, QuestionSet
from memory.vectors.evaluation.retrieval import Bench, drawn, mean_of, measure_set
from tests.vectors.conftest import SECONDS, Store
from tests.vectors.hashed import HashedEmbedder

THINGS = ("port", "lock", "cache", "token", "queue", "schema", "certificate", "proxy")
FAULTS = ("is stale", "was refused", "is missing", "ran out")


def things(*names: str) -> QuestionSet:
    """Items about some things and their faults, and a question about each."""
    items = {f"{name} {fault}": f"the {name} {fault} in the {name} service" for name in names for fault in FAULTS}
    questions = [Question(f"why the {item} in the service", frozenset({item})) for item in items]
    return QuestionSet("things", (Group(items, questions),))


UNRELATED = [Question(text, frozenset({"none"})) for text in ("zebra violin nebula", "quartz meadow tango")]


def bench_of(store: Store) -> Bench:
    vectors = KeptVectors(HashedEmbedder())
    return Bench(store.another(vectors), vectors, f"eval-{uuid.uuid4().hex}")


async def test_a_set_is_measured_and_nothing_of_it_stays(store: Store) -> None:
    bench = bench_of(store)
    measured = await measure_set(bench, things(*THINGS))
    assert (measured["items"], measured["questions"]) == (32, 32)
    assert measured["recall@5"] > 0.9
    assert measured["recall@10"] >= measured["recall@5"] >= measured["with_cut_off"]["recall@5"]
    assert 0 < measured["search_ms"]["p50"] <= measured["search_ms"]["p95"]
    assert measured["search_with_embedding_ms"]["p50"] > 0
    assert measured["adds_per_second"] >= measured["adds_with_embedding_per_second"] > 0
    assert mean_of({"things": measured})["ndcg@10"] == measured["ndcg@10"]
    await bench.index.drop(bench.tenant, deadline_seconds=SECONDS)
    assert await bench.index.generations(bench.tenant, deadline_seconds=SECONDS) == ()


async def test_the_questions_own_item_is_no_answer(pgvector_store: Store) -> None:
    items = {"asked": "the port is stale", "answer": "a stale port", "other": "queue"}
    own = QuestionSet("own", (Group(items, [Question("the port is stale", frozenset({"answer"}), "asked")]),))
    bench = bench_of(pgvector_store)
    assert (await measure_set(bench, own))["mrr@10"] == 1
    await bench.index.drop(bench.tenant, deadline_seconds=SECONDS)


async def test_the_cut_off_is_measured_in_whole_groups_and_in_parts(
    pgvector_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutoff, "SMALL_SCOPES", 5)
    bench = bench_of(pgvector_store)
    measured = await measure_cutoff(bench, things(*THINGS), UNRELATED, most=16)
    assert measured["whole"]["unrelated"] == 2
    assert measured["whole"]["related"] == 16
    for kind in ("whole", "small_scopes"):
        assert measured[kind]["unrelated_rejected"] == 1
        assert 0 <= measured[kind]["recall@5_lost_points"] < 50
        assert measured[kind]["recall@5"] > 0.8
    assert mean_cutoff([measured])["whole"]["unrelated_rejected"] == 1
    await bench.index.drop(bench.tenant, deadline_seconds=SECONDS)


async def test_another_tenant_keeps_what_it_has(pgvector_store: Store) -> None:
    store = pgvector_store
    await store.put(store.document("port", "the port is in use"))
    bench = bench_of(store)
    await measure_set(bench, things("port"))
    await bench.index.drop(bench.tenant, deadline_seconds=SECONDS)
    assert await store.ids("port in use") == ["port"]


async def test_without_the_cut_off_the_best_are_given_however_little_they_fit(pgvector_store: Store) -> None:
    store = pgvector_store
    (group,) = things(*THINGS).groups
    await store.put(*(store.document(item, text) for item, text in group.items.items()))
    assert (await store.find(UNRELATED[0].text)).hits == ()
    assert len(await store.ids(UNRELATED[0].text, cut_off=False)) == 10


def test_a_sample_is_the_same_each_time_and_spread_over_the_groups() -> None:
    questions = things(*THINGS).questions
    assert drawn(questions, 8, 64) == drawn(questions, 8, 64)
    assert len(drawn(questions, 8, 64)) == 4
    assert drawn(questions, None, 64) == drawn(questions, 64, 64) == questions


async def test_vectors_are_made_once_for_all_runs(tmp_path: Path) -> None:
    embedder = HashedEmbedder()
    kept = KeptVectors(embedder, tmp_path / "vectors")
    first = await kept.embed(["port", "lock", "port"])
    assert embedder.embedded == 2
    kept.save()
    again = KeptVectors(embedder, tmp_path / "vectors")
    assert (await again.embed(["lock", "port"]) == first[[1, 0]]).all()
    assert embedder.embedded == 2
    assert len(await again.seconds_for(["port"])) == 1
    assert embedder.embedded == 3


async def embedded(folder: Path) -> int:
    """Say how many texts had to be embedded for one."""
    embedder = HashedEmbedder()
    kept = KeptVectors(embedder, folder)
    await kept.embed(["port"])
    kept.save()
    return embedder.embedded


def spoil(folder: Path, left: bytes) -> None:
    (file,) = folder.iterdir()
    file.write_bytes(left)


@pytest.mark.parametrize("left", [b"", b"PK\x03\x04 half of a file"])
async def test_a_broken_file_of_vectors_is_made_again(tmp_path: Path, left: bytes) -> None:
    assert [await embedded(tmp_path), await embedded(tmp_path)] == [1, 0]
    spoil(tmp_path, left)
    assert await embedded(tmp_path) == 1


async def test_vectors_of_another_embedder_are_not_used(tmp_path: Path) -> None:
    kept = KeptVectors(HashedEmbedder(), tmp_path)
    await kept.embed(["port"])
    kept.save()
    other = HashedEmbedder("other")
    await KeptVectors(other, tmp_path).embed(["port"])
    assert other.embedded == 1
    other.down = True
    with pytest.raises(StoreUnavailable):
        await KeptVectors(other, tmp_path).embed(["lock"])
