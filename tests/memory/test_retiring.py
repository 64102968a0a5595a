from typing import Any

import pytest

from memory.document import document
from memory.errors import Conflict, NotFound, Rejected
from memory.knowledge import retire, search
from memory.recall import recall
from memory.stores import Stores
from memory.vectors.project import index_follower
from poimen.contracts.memory_calls import (
    DocumentDecision,
    GetContext,
    RetireKnowledge,
    SearchKnowledge,
    SearchResult,
)
from tests.fixtures_postgres import Database
from tests.memory.acted_step import PORT_TAKEN, ActedStep, caller, cured_by, incurable


async def followed(stores: Stores) -> None:
    await index_follower(stores, "local").step()


async def searched(stores: Stores, query: str, **values: Any) -> SearchResult:
    call = SearchKnowledge(scope="acme/api", query=query, deadline_ms=20_000, **values)
    return await search(call, caller(), stores)


async def learned_lesson(stores: Stores) -> str:
    step = ActedStep(stores)
    for number in (1, 2):
        await step.run(f"rel-{number}", cured_by("free-port"))
    await followed(stores)
    return (await searched(stores, PORT_TAKEN)).items[0].id


async def test_a_retired_lesson_is_neither_delivered_nor_found_nor_prevents(stores: Stores) -> None:
    lesson = await learned_lesson(stores)
    retired = await retire(RetireKnowledge(scope="acme/api", id=lesson, reason="wrong"), caller(), stores)
    await followed(stores)
    assert (retired.id, retired.revision) == (lesson, 2)
    call = GetContext(scope="acme/api", run="rel-3", step="serve", repairs=("free-port",), deadline_ms=20_000)
    package = await recall(call, caller(), stores)
    assert package.items == ()
    assert package.prevention is None
    assert [i for i in (await searched(stores, PORT_TAKEN)).items if i.kind == "lesson"] == []


async def test_a_failure_after_the_retirement_makes_the_lesson_live_with_new_evidence_only(
    stores: Stores,
) -> None:
    lesson = await learned_lesson(stores)
    await retire(RetireKnowledge(scope="acme/api", id=lesson), caller(), stores)
    acted = await ActedStep(stores, most_attempts=1).run("rel-3", incurable())
    assert acted.analyses[0].seen_before is None
    await followed(stores)
    found = (await searched(stores, PORT_TAKEN)).items[0]
    assert (found.id, found.revision) == (lesson, 3)
    assert found.text == ("serve failed 1 time in 1 run: address in use. Nothing has been tried against it yet.")


async def test_a_lesson_that_is_live_again_advises_by_what_was_seen_since(stores: Stores) -> None:
    lesson = await learned_lesson(stores)
    await retire(RetireKnowledge(scope="acme/api", id=lesson), caller(), stores)
    step = ActedStep(stores)
    # What ended it before is not known any more: the first declared repair is tried, not the one that once helped.
    again = [await step.run(f"rel-{number}", cured_by("reboot")) for number in (3, 4)]
    assert [acted.end for acted in again] == ["succeeded", "succeeded"]
    await followed(stores)
    found = (await searched(stores, PORT_TAKEN, tiers=("signatures",))).items[0]
    assert found.id == lesson
    assert "in 2 runs: address in use. Ended by: reboot (2 of 2)." in found.text


async def test_an_unknown_item_is_not_found(stores: Stores) -> None:
    with pytest.raises(NotFound, match="les-00000000 is not on record"):
        await retire(RetireKnowledge(scope="acme/api", id="les-00000000"), caller(), stores)
    with pytest.raises(NotFound):
        await retire(RetireKnowledge(scope="acme/api", id="%"), caller(), stores)


async def test_an_item_of_another_scope_is_not_found(stores: Stores) -> None:
    lesson = await learned_lesson(stores)
    with pytest.raises(NotFound):
        await retire(RetireKnowledge(scope="acme/web", id=lesson), caller(), stores)


async def test_another_revision_is_a_conflict_that_names_the_actual_one(stores: Stores) -> None:
    lesson = await learned_lesson(stores)
    with pytest.raises(Conflict, match="is at revision 1, you sent 3; read it again") as caught:
        await retire(RetireKnowledge(scope="acme/api", id=lesson, expected_revision=3), caller(), stores)
    assert caught.value.actual_revision == 1


async def test_retiring_twice_is_refused_and_repeating_the_call_is_not(stores: Stores) -> None:
    lesson = await learned_lesson(stores)
    call = RetireKnowledge(scope="acme/api", id=lesson)
    await retire(call, caller(key="k"), stores)
    assert (await retire(call, caller(key="k"), stores)).duplicate
    with pytest.raises(Rejected):
        await retire(call, caller(), stores)


async def test_a_short_id_that_fits_two_items_is_refused_with_longer_ones(stores: Stores, database: Database) -> None:
    await learned_lesson(stores)
    # Two items of one beginning cannot be waited for; they are put there.
    same = "les-7f3c21d0"
    await database.run_sql(
        f"""insert into items (tenant, id, scope, kind, level, title, text, origin, trust, created_at, updated_at)
        select 'local', '{same}' || tail || repeat('0', 55), 'acme/api', 'lesson', 'L1', 't', 't', 'operator',
        'reviewed', now(), now() from unnest(array['a', 'b']) as tail;"""
    )
    with pytest.raises(Conflict, match=f"give {same}a or {same}b"):
        await retire(RetireKnowledge(scope="acme/api", id=same), caller(), stores)
    retired = await retire(RetireKnowledge(scope="acme/api", id=f"{same}a"), caller(), stores)
    assert retired.revision == 2


async def test_search_finds_a_failure_by_its_text_by_its_key_and_by_its_words(stores: Stores) -> None:
    lesson = await learned_lesson(stores)
    exact = await searched(stores, PORT_TAKEN, tiers=("signatures",))
    assert [(i.id, i.because, i.score) for i in exact.items] == [(lesson, "same failure", 1.0)]
    assert [report.status for report in exact.tiers] == ["answered", "skipped", "skipped"]
    acted = await ActedStep(stores, most_attempts=1).run("rel-3", incurable())
    by_key = await searched(stores, acted.analyses[0].signature, tiers=("signatures",))
    assert by_key.items[0].id == lesson
    by_words = await searched(stores, "which address is in use", tiers=("vectors",))
    assert by_words.items[0].id == lesson
    assert by_words.items[0].tier == "vectors"


async def test_search_that_finds_nothing_says_why(stores: Stores) -> None:
    nothing = await searched(stores, "zebra xylophone", tiers=("signatures", "vectors"))
    assert (nothing.empty_reason, nothing.empty_because) == (
        "no_evidence",
        "nothing is on record in acme/api",
    )
    await learned_lesson(stores)
    other = await searched(stores, "zebra xylophone", tiers=("signatures", "vectors"))
    assert other.empty_reason == "below_threshold"


async def test_search_gives_only_the_kinds_asked_for(stores: Stores) -> None:
    await learned_lesson(stores)
    found = await searched(stores, "port address already in use listen", kinds=("skill",))
    assert {item.kind for item in found.items} == {"skill"}


async def test_a_decision_is_documented_once(stores: Stores, database: Database) -> None:
    call = DocumentDecision(scope="acme/api", run="rel-1", kind="gate", decision="passed")
    first = await document(call, caller(key="k"), stores)
    again = await document(call, caller(key="k"), stores)
    assert (again.decision_id, again.duplicate) == (first.decision_id, True)
    assert (await database.run_sql("select count(*) from journal;")).strip() == "1"
