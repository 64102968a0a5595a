"""What every index of knowledge does, on the real servers."""

import asyncio
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from memory.errors import NotFound, Rejected, StoreUnavailable
from memory.vectors.index import Document, Entry, Hit, Query, State, VectorIndex
from memory.vectors.tokens import query_terms, terms
from tests.vectors.conftest import SCOPE, SECONDS, Store, by_words
from tests.vectors.hashed import HashedEmbedder
from tests.vectors.reference import Reference

PORT = "the port 8080 is in use by another server"
LOCK = "a stale lock file blocks the migration"


async def test_the_item_that_shares_the_rare_words_comes_first(store: Store) -> None:
    put = [store.document("port", PORT), store.document("lock", LOCK), store.document("both", "server lock")]
    assert await store.put(*put) == ["stored"] * 3
    found = await store.find("port of the server")
    assert found.hits[0].id == "port"
    assert found.searched == 3
    assert found.by_words_because is None
    assert all(0 < hit.score <= 1 and hit.cosine is not None for hit in found.hits)
    assert set(found.hits[0].matched) == {"port", "server"}


async def test_an_older_version_never_overwrites_a_newer_one(store: Store) -> None:
    assert await store.put(store.document("x", "violet words", 5)) == ["stored"]
    assert await store.put(store.document("x", "crimson terms", 4)) == ["older"]
    assert await store.put(store.document("x", "crimson terms", 5)) == ["older"]
    assert await store.ids("violet words") == ["x"]
    assert (await store.find("crimson")).hits == ()
    assert await store.put(store.document("x", "crimson terms", 6)) == ["stored"]
    assert await store.ids("crimson terms") == ["x"]
    assert (await store.find("violet")).hits == ()


async def test_of_two_versions_in_one_batch_the_newer_stays(store: Store) -> None:
    new, old = store.document("x", "violet words", 5), store.document("x", "crimson terms", 4)
    assert sorted(await store.put(new, old, store.document("y", PORT))) == ["older", "stored", "stored"]
    assert (await store.ids("violet words"))[0] == "x"
    assert (await store.find("violet")).searched == 2


async def test_a_newer_version_that_says_the_same_is_stored(store: Store) -> None:
    assert await store.put(store.document("x", PORT, 1)) == ["stored"]
    assert await store.put(store.document("x", PORT, 7)) == ["stored"]
    assert await store.put(store.document("x", LOCK, 6)) == ["older"]
    assert await store.ids("port server") == ["x"]


@pytest.mark.parametrize("state", ["retired", "quarantined"])
async def test_a_removed_item_stays_removed_when_its_creation_arrives_late(store: Store, state: str) -> None:
    gone = store.document("port", "", 7, state=state)
    assert await store.put(gone, store.document("lock", LOCK)) == ["stored", "stored"]
    assert await store.put(store.document("port", PORT, 1)) == ["older"]
    found = await store.find("port 8080 server")
    assert found.hits == ()
    assert found.searched == 1
    assert await store.put(store.document("port", PORT, 9)) == ["stored"]
    assert (await store.ids("port 8080 server"))[0] == "port"


async def test_a_removed_item_leaves_no_trace_in_the_scores(store: Store) -> None:
    await store.put(store.document("port", PORT), store.document("lock", LOCK))
    before = await store.find("port in use")
    more = [store.document(f"n{number}", f"port use {number}", 5) for number in range(9)]
    await store.put(*more)
    assert await store.find("port in use") != before
    await store.put(*(store.document(one.id, "", 6, state="retired") for one in more))
    assert await store.find("port in use") == before


async def test_other_tenants_and_scopes_change_no_score(store: Store) -> None:
    await store.put(store.document("port", PORT), store.document("lock", LOCK))
    before = await store.find("port in use")
    for number in range(3):
        await store.put(*(store.document(f"a{number}{n}", "port port in use", scope="acme/web") for n in range(30)))
        await store.put(
            *(store.document(f"b{number}{n}", "port port in use", tenant=f"{store.tenant}-other") for n in range(30))
        )
    assert await store.find("port in use") == before


async def test_a_scope_is_an_exact_string(store: Store) -> None:
    await store.put(store.document("x", PORT, scope="acme/API"), store.document("y", PORT, scope="acme/api/v2"))
    found = await store.find(PORT)
    assert found.hits == ()
    assert found.empty_reason == "no_evidence"


async def test_the_library_is_searched_with_every_scope(store: Store) -> None:
    text = "rotate the credentials nightly"
    await store.put(store.document("shared", text, scope="@library"), store.document("port", PORT))
    assert (await store.ids("rotate credentials"))[0] == "shared"
    assert (await store.find("rotate credentials")).searched == 2
    assert await store.ids("rotate credentials", scope="acme/web") == ["shared"]
    assert (await store.find("rotate credentials", scope="@library")).searched == 1


async def test_kinds_levels_and_age_are_filtered_inside_the_search(store: Store) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    many = [store.document(f"m{number:03}", "port server lock", recorded_at=now) for number in range(120)]
    rule = store.document("rule", "a server port lock", kind="rule", level="L2", recorded_at=now - timedelta(days=9))
    await store.put(*many, rule, store.document("undated", "a server port lock", kind="pattern"))
    assert await store.ids("port server lock", kinds=("rule",), limit=1) == ["rule"]
    assert await store.ids("port server lock", levels=("L2",)) == ["rule"]
    assert await store.ids("port server lock", kinds=("rule",), levels=("L1",)) == []
    assert set(await store.ids("port server lock", kinds=("rule", "pattern"))) == {"rule", "undated"}
    recent = await store.ids("port server lock", not_before=now - timedelta(days=1), limit=200)
    assert {"rule", "undated"}.isdisjoint(recent)
    assert len(recent) >= 50
    assert await store.ids("port", not_before=now - timedelta(days=9), kinds=("rule",)) == ["rule"]


async def test_another_subject_is_below_the_threshold(store: Store) -> None:
    await store.put(store.document("port", PORT), store.document("lock", LOCK))
    found = await store.find("zebra xylophone quartz violin nebula server")
    assert found.hits == ()
    assert found.searched == 2
    assert found.empty_reason == "below_threshold"
    assert found.empty_because is not None


async def test_an_empty_scope_and_an_empty_query_have_no_evidence(store: Store) -> None:
    nothing = await store.find("port")
    assert (nothing.empty_reason, nothing.searched) == ("no_evidence", 0)
    await store.put(store.document("port", PORT))
    for text in ("", "… !!", "\0", "\ud800"):
        assert (await store.find(text)).empty_reason == "no_evidence"
    await store.put(store.document("port", "", 2, state="retired"))
    assert (await store.find("port")).empty_reason == "no_evidence"


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Größe 大小 ошибка", "大小"),
        ("NUL \0 inside heartbeat", "heartbeat \0"),
        ("a lone \ud83d surrogate heartbeat", "heartbeat \udc00"),
        ("emoji 🚀 launch 'quoted' {brace} \\ back", "launch {brace} 'quoted' \\"),
        ("heartbeat " + "x" * 300_000, "heartbeat"),
        ("word " * 100_000, "word"),
    ],
)
async def test_any_text_is_stored_and_found(store: Store, text: str, query: str) -> None:
    assert await store.put(store.document("x", text), store.document("lock", LOCK)) == ["stored", "stored"]
    assert (await store.ids(query))[0] == "x"


async def test_an_identifier_that_the_store_refuses_fails_alone(store: Store) -> None:
    odd = store.document("odd\0", PORT)
    await store.begin()
    outcomes = await store.index.put([store.document("x", PORT), odd], deadline_seconds=SECONDS)
    assert [one.outcome for one in outcomes] == ["stored", "failed"]
    assert outcomes[1].because
    await store.settle(store.tenant)
    assert await store.ids(PORT) == ["x"]


async def test_a_text_that_the_embedder_never_takes_fails_alone(store: Store) -> None:
    await store.begin()
    store.embedder.refused = "odd"
    documents = [store.document("x", PORT), store.document("odd", "an odd text"), store.document("y", LOCK)]
    outcomes = await store.index.put(documents, deadline_seconds=SECONDS)
    assert [one.outcome for one in outcomes] == ["stored", "failed", "stored"]
    assert outcomes[1].because
    await store.settle(store.tenant)
    assert (await store.find("odd port 8080")).by_words_because == "hashed does not answer"
    assert (await store.ids(PORT))[0] == "x"


async def test_a_query_of_three_hundred_terms_is_answered(store: Store) -> None:
    await store.put(store.document("port", PORT), store.document("lock", LOCK))
    query = " ".join(f"word{number} {PORT}" for number in range(300))
    assert len(terms(query)) > 300
    assert (await store.ids(query))[0] == "port"


async def test_an_empty_put_stores_nothing(store: Store) -> None:
    assert await store.index.put([], deadline_seconds=SECONDS) == ()
    assert await store.index.generations(store.tenant, deadline_seconds=SECONDS) == ()


WORDS = [f"{stem}{ending}" for stem in ("net", "disk", "lock", "port", "user", "role") for ending in "abcdefgh"]


def corpus(store: Store, documents: int, seed: int) -> list[Document]:
    chosen = random.Random(seed)
    # Common words and rare ones, as texts have them.
    weights = [1 / (rank + 1) for rank in range(len(WORDS))]
    return [
        store.document(
            f"item-{number:03}",
            " ".join(chosen.choices(WORDS, weights, k=chosen.randint(3, 14))),
            kind=chosen.choice(["lesson", "rule"]),
            scope=chosen.choice([SCOPE, SCOPE, "@library"]),
        )
        for number in range(documents)
    ]


def near(hits: tuple[Hit, ...]) -> list[tuple[str, float, float | None, tuple[str, ...]]]:
    # Vectors may be stored with less than every bit.
    return [
        (hit.id, pytest.approx(hit.score, abs=2e-3), pytest.approx(hit.cosine, abs=2e-3), hit.matched) for hit in hits
    ]


@pytest.mark.parametrize("meant", [True, False])
async def test_the_ranking_is_that_of_all_documents_compared_one_by_one(store: Store, meant: bool) -> None:
    used = store if meant else by_words(store)
    documents = corpus(used, 160, seed=5)
    await used.put(*documents)
    reference = Reference(documents, used.embedder if meant else None)
    for seed in range(12):
        query = " ".join(random.Random(100 + seed).sample(WORDS, 1 + seed % 5))
        for kinds in ((), ("rule",)):
            expected = reference.hits(query, kinds, limit=10)
            found = await used.find(query, kinds=kinds)
            assert [(hit.id, hit.score, hit.cosine, hit.matched) for hit in found.hits] == near(expected), query


async def test_words_that_many_documents_have_count_alike_in_every_store(store: Store) -> None:
    chosen = random.Random(4)
    words = [f"w{number}" for number in range(400)]
    documents = [
        store.document(
            f"d{number:04}",
            " ".join(["deploy"] * (number % 5 == 0) + ["cluster"] * (number % 6 == 0) + chosen.choices(words, k=8)),
        )
        for number in range(1_300)
    ]
    await store.put(*documents)
    reference = Reference(documents, store.embedder)
    for word in words[:8]:
        expected = {hit.id: hit.score for hit in reference.hits(f"deploy cluster {word}", (), limit=100)}
        found = {hit.id: hit.score for hit in (await store.find(f"deploy cluster {word}", limit=10)).hits}
        # Vectors of fewer bits may change places of nearly equal ones.
        assert list(found.values()) == pytest.approx(list(expected.values())[:10], abs=5e-3), word
        assert found == pytest.approx({item: expected[item] for item in found}, abs=5e-3), word


async def test_without_an_embedder_search_is_by_words_and_says_so(store: Store) -> None:
    words = by_words(store)
    await words.put(words.document("port", PORT))
    found = await words.find("port")
    assert [(hit.id, hit.cosine) for hit in found.hits] == [("port", None)]
    assert found.by_words_because == "no embedder is set"


async def test_an_embedder_that_is_down_leaves_the_words(store: Store) -> None:
    await store.put(store.document("port", PORT))
    store.embedder.down = True
    found = await store.find("port")
    assert [hit.id for hit in found.hits] == ["port"]
    assert found.by_words_because is not None
    with pytest.raises(StoreUnavailable):
        await store.put(store.document("lock", LOCK))
    store.embedder.down = False
    assert await store.put(store.document("lock", LOCK)) == ["stored"]
    assert (await store.find("lock")).hits[0].cosine is not None


async def test_an_index_of_another_embedder_is_searched_by_words(store: Store) -> None:
    await store.put(store.document("port", PORT))
    other = store.another(HashedEmbedder("other", 32))
    found = await other.search(Query(tenant=store.tenant, scope=SCOPE, text="port"), deadline_seconds=SECONDS)
    assert [hit.id for hit in found.hits] == ["port"]
    assert "rebuild" in (found.by_words_because or "")
    assert (await other.health(store.tenant, deadline_seconds=SECONDS)).health == "degraded"
    with pytest.raises(StoreUnavailable, match="rebuild"):
        await other.put([store.document("lock", LOCK)], deadline_seconds=SECONDS)


async def test_what_is_there_already_is_not_embedded_again(store: Store) -> None:
    await store.put(store.document("port", PORT, 3))
    embedded = store.embedder.embedded
    await store.put(store.document("port", PORT, 3), store.document("port", LOCK, 2))
    await store.put(store.document("gone", "", 2, state="retired"))
    assert store.embedder.embedded == embedded


async def test_a_put_makes_no_generation_since_it_would_lack_what_was_put_before(store: Store) -> None:
    with pytest.raises(StoreUnavailable, match="no index yet"):
        await store.index.put([store.document("x", PORT)], deadline_seconds=SECONDS)
    assert await store.index.generations(store.tenant, deadline_seconds=SECONDS) == ()


async def test_puts_at_the_same_time_lose_nothing(store: Store) -> None:
    await store.begin()
    await asyncio.gather(*(store.put(store.document(f"x{number}", PORT)) for number in range(5)))
    assert (await store.find("port")).searched == 5


async def entries(index: VectorIndex, tenant: str, number: int, limit: int = 100) -> list[Entry]:
    listed: list[Entry] = []
    while True:
        after = (listed[-1].scope, listed[-1].id) if listed else None
        page = await index.entries(tenant, number, after=after, limit=limit, deadline_seconds=SECONDS)
        listed += page
        if len(page) < limit:
            return listed


async def test_a_new_generation_takes_writes_beside_the_live_one_and_is_swapped_in(store: Store) -> None:
    index, tenant = store.index, store.tenant
    await store.put(store.document("old", PORT), store.document("both", LOCK))
    (live,) = await index.generations(tenant, deadline_seconds=SECONDS)
    building = await index.begin(tenant, deadline_seconds=SECONDS)
    assert (building.state, building.embedder) == ("building", "hashed")
    assert building.number > live.number
    # The same version: the live one has it, the new one does not.
    assert await store.put(store.document("both", LOCK), store.document("new", "a fresh lock")) == ["stored"] * 2
    assert [entry.id for entry in await entries(index, tenant, building.number)] == ["both", "new"]
    assert (await store.ids("port 8080"))[0] == "old"
    assert (await store.find("port 8080")).searched == 3
    await index.promote(tenant, building.number, deadline_seconds=SECONDS)
    assert set(await store.ids("lock")) == {"both", "new"}
    assert (await store.find("port 8080")).searched == 2
    states = [(one.number, one.state) for one in await index.generations(tenant, deadline_seconds=SECONDS)]
    assert states == [(building.number, "live"), (live.number, "kept")]
    await index.promote(tenant, building.number, deadline_seconds=SECONDS)
    assert [(one.number, one.state) for one in await index.generations(tenant, deadline_seconds=SECONDS)] == states


async def test_a_generation_begun_again_starts_empty(store: Store) -> None:
    index, tenant = store.index, store.tenant
    await store.put(store.document("a", PORT))
    first = await index.begin(tenant, deadline_seconds=SECONDS)
    await store.put(store.document("b", PORT))
    second = await index.begin(tenant, deadline_seconds=SECONDS)
    assert second.number > first.number
    await store.put(store.document("c", PORT))
    assert [entry.id for entry in await entries(index, tenant, second.number)] == ["c"]
    states = [one.state for one in await index.generations(tenant, deadline_seconds=SECONDS)]
    assert states == ["building", "live"]
    with pytest.raises(NotFound):
        await index.promote(tenant, first.number, deadline_seconds=SECONDS)


async def test_of_the_former_generations_one_is_kept(store: Store) -> None:
    index, tenant = store.index, store.tenant
    await store.put(store.document("a", PORT))
    for _ in range(3):
        building = await index.begin(tenant, deadline_seconds=SECONDS)
        await store.put(store.document("a", PORT))
        await index.promote(tenant, building.number, deadline_seconds=SECONDS)
    states = [one.state for one in await index.generations(tenant, deadline_seconds=SECONDS)]
    assert states == ["live", "kept"]
    assert await store.ids("port") == ["a"]


async def test_a_generation_of_a_new_embedder_replaces_the_old_one(store: Store) -> None:
    await store.put(store.document("port", PORT))
    other = store.another(HashedEmbedder("other", 32))
    building = await other.begin(store.tenant, deadline_seconds=SECONDS)
    assert (building.embedder, building.dimension) == ("other", 32)
    # The worker of before goes on feeding the live one.
    assert await store.put(store.document("lock", LOCK)) == ["stored"]
    both = [store.document("port", PORT), store.document("lock", LOCK)]
    assert [one.outcome for one in await other.put(both, deadline_seconds=SECONDS)] == ["stored", "stored"]
    await other.promote(store.tenant, building.number, deadline_seconds=SECONDS)
    await store.settle(store.tenant)
    found = await other.search(Query(tenant=store.tenant, scope=SCOPE, text="lock"), deadline_seconds=SECONDS)
    assert found.by_words_because is None
    assert found.hits[0].id == "lock"


async def test_entries_are_listed_page_by_page_in_order_with_tombstones(store: Store) -> None:
    scopes = ["B", "a", "a/b", "é"]
    documents = [
        store.document(
            item, "" if gone else f"text {item}", scope=scope, version=version, state="retired" if gone else "active"
        )
        for version, scope in enumerate(scopes, 1)
        for item, gone in (("X", False), ("x-1", True), ("x1", False), ("ü", False))
    ]
    await store.put(*documents)
    (live,) = await store.index.generations(store.tenant, deadline_seconds=SECONDS)
    listed = [Entry(one.scope, one.id, one.version, one.state, one.digest) for one in documents]
    expected = sorted(listed, key=lambda entry: (entry.scope, entry.id))
    for limit in (1, 3, 100):
        assert await entries(store.index, store.tenant, live.number, limit) == expected
    assert await entries(store.index, f"{store.tenant}-other", live.number) == []


@pytest.mark.parametrize("deadline", [1e-6])
async def test_what_does_not_answer_in_time_is_unavailable(store: Store, deadline: float) -> None:
    await store.put(store.document("port", PORT))
    query = Query(tenant=store.tenant, scope=SCOPE, text="port")
    index = store.another(None)
    asked = [
        lambda: index.search(query, deadline_seconds=deadline),
        lambda: store.index.put([store.document("x", PORT)], deadline_seconds=deadline),
        lambda: index.health(store.tenant, deadline_seconds=deadline),
        lambda: index.generations(store.tenant, deadline_seconds=deadline),
        lambda: index.entries(store.tenant, 1, after=None, limit=1, deadline_seconds=deadline),
    ]
    for ask in asked:
        with pytest.raises(StoreUnavailable):
            await ask()
    assert await store.ids("port") == ["port"]


async def test_a_scope_that_no_store_can_have_is_refused(store: Store) -> None:
    await store.put(store.document("port", PORT))
    with pytest.raises(Rejected):
        await store.find("port", scope="acme\0api")


async def test_a_query_is_cut_to_the_same_terms_everywhere(store: Store) -> None:
    words = by_words(store)
    await words.put(words.document("port", PORT))
    query = f"port {' '.join(f'filler{number} filler{number}' for number in range(80))}"
    assert "port" not in query_terms(query)
    assert (await words.find(query)).hits == ()


async def test_health_says_what_is_compared(store: Store) -> None:
    condition = await store.index.health(store.tenant, deadline_seconds=SECONDS)
    assert condition.health == "ok"
    assert "hashed" in condition.detail
    condition = await store.another(None).health(f"{store.tenant}-other", deadline_seconds=SECONDS)
    assert condition.health == "ok"
    assert "by words" in condition.detail


async def test_a_history_of_changes_leaves_what_its_end_put_at_once_leaves(store: Store) -> None:
    chosen = random.Random(11)
    fresh = replace(store, tenant=f"{store.tenant}-fresh")
    last: dict[str, Document] = {}
    for version in range(1, 7):
        batch = []
        for number in chosen.sample(range(24), 12):
            text, gone = " ".join(chosen.choices(WORDS, k=6)), chosen.random() < 0.3
            state: State = "retired" if gone else "active"
            one = store.document(f"d{number}", "" if gone else text, version, state=state)
            last[one.id] = one
            batch.append(one)
        await store.put(*batch)
    await fresh.put(*(replace(one, tenant=fresh.tenant) for one in last.values()))
    for word in WORDS[:12]:
        assert await store.find(word) == await fresh.find(word), word
