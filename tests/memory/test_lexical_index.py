from typing import Any

import pytest

from memory.stores import Stores
from memory.vectors.index import Document, Found, Query, VectorIndex
from memory.vectors.tokens import stem, terms

SECONDS = 20.0


@pytest.fixture
def index(stores: Stores) -> VectorIndex:
    return stores.index


def document(item_id: str, text: str, version: int = 1, **values: Any) -> Document:
    given = {"tenant": "local", "scope": "acme/api", "kind": "lesson", "level": "L1", **values}
    return Document(id=item_id, text=text, version=version, **given)


async def put(index: VectorIndex, *documents: Document) -> None:
    for one in documents:
        await index.index(one, deadline_seconds=SECONDS)


async def find(index: VectorIndex, text: str, **values: Any) -> Found:
    given = {"tenant": "local", "scope": "acme/api", **values}
    return await index.search(Query(text=text, **given), deadline_seconds=SECONDS)


PORT = document("port", "the port 8080 is in use by another server")
LOCK = document("lock", "a stale lock file blocks the migration")


async def test_the_item_that_shares_the_rare_words_comes_first(index: VectorIndex) -> None:
    await put(index, PORT, LOCK, document("both", "server lock"))
    found = await find(index, "port of the server")
    assert [hit.id for hit in found.hits] == ["port", "both"]
    assert found.searched == 3
    assert all(0 < hit.score <= 1 for hit in found.hits)


async def test_other_tenants_and_scopes_change_no_score(index: VectorIndex) -> None:
    await put(index, PORT, LOCK)
    before = await find(index, "port in use")
    for number in range(20):
        await put(
            index,
            document(f"a{number}", "port port in use", tenant="other"),
            document(f"b{number}", "port port in use", scope="acme/web"),
        )
    assert await find(index, "port in use") == before


async def test_the_library_is_searched_with_every_scope(index: VectorIndex) -> None:
    await put(index, document("shared", "rotate the credentials nightly", scope="@library"))
    assert [hit.id for hit in (await find(index, "rotate credentials")).hits] == ["shared"]
    elsewhere = await find(index, "rotate credentials", scope="acme/web")
    assert [hit.id for hit in elsewhere.hits] == ["shared"]


async def test_an_older_version_never_overwrites_a_newer_one(index: VectorIndex) -> None:
    assert await index.index(document("x", "new words", 5), deadline_seconds=SECONDS)
    assert not await index.index(document("x", "old terms", 4), deadline_seconds=SECONDS)
    assert not await index.index(document("x", "old terms", 5), deadline_seconds=SECONDS)
    assert (await find(index, "new words")).hits
    assert not (await find(index, "old terms")).hits


async def test_a_removed_item_stays_removed_when_its_creation_arrives_late(index: VectorIndex) -> None:
    assert await index.remove("local", "acme/api", "port", 7, deadline_seconds=SECONDS)
    assert not await index.index(PORT, deadline_seconds=SECONDS)
    assert (await find(index, "port")).hits == ()
    revived = document("port", "the port again", 9)
    assert await index.index(revived, deadline_seconds=SECONDS)
    assert (await find(index, "port")).hits


async def test_kinds_and_state_are_filtered_inside_the_search(index: VectorIndex) -> None:
    await put(
        index,
        PORT,
        document("rule", "port rule", kind="rule"),
        document("held", "port", state="quarantined"),
    )
    assert [hit.id for hit in (await find(index, "port", kinds=("rule",), limit=1)).hits] == ["rule"]
    assert {hit.id for hit in (await find(index, "port")).hits} == {"port", "rule"}


async def test_another_subject_is_below_the_threshold(index: VectorIndex) -> None:
    await put(index, PORT, LOCK)
    found = await find(index, "zebra xylophone quartz violin nebula server")
    assert found.hits == ()
    assert found.empty_reason == "below_threshold"
    assert found.empty_because is not None


async def test_an_empty_scope_and_an_empty_query_have_no_evidence(index: VectorIndex) -> None:
    assert (await find(index, "port")).empty_reason == "no_evidence"
    await put(index, PORT)
    assert (await find(index, "… !!")).empty_reason == "no_evidence"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("parse_config_file", {"pars", "config", "file", "parse_config_file"}),
        ("HTTPServerError42", {"http", "server", "error", "42", "httpservererror42"}),
        ("src/api/main.py:12", {"src", "api", "main", "py", "12", "src/api/main.py:12"}),
        ("ECONNREFUSED", {"econnrefus"}),
        ("Größe 大小", {"größe", "大小"}),
        ("the of and", set()),
    ],
)
def test_names_are_cut_into_parts_and_kept_whole(text: str, found: set[str]) -> None:
    assert found <= set(terms(text))
    assert bool(terms(text)) == bool(found)


@pytest.mark.parametrize(
    ("one", "other"),
    [("retries", "retry"), ("failed", "fail"), ("stopped", "stop"), ("locks", "lock"), ("serving", "serve")],
)
def test_forms_of_a_word_are_one_term(one: str, other: str) -> None:
    assert stem(one) == stem(other)


def test_a_text_without_end_is_cut() -> None:
    assert sum(terms("word " * 1_000_000).values()) <= 20_000
