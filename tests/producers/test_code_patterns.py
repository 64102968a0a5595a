import pytest

from memory.accept import accept
from memory.errors import Rejected
from memory.knowledge import search
from memory.stores import Stores
from poimen.contracts.memory_calls import AcceptKnowledge, SearchKnowledge
from tests.memory.acted_step import caller
from tests.producers.conftest import end_run, events_of, items_of, make_knowledge, pass_step
from tests.projection.conftest import SCOPE, differences, follow

ARTIFACT = "api/paging.py"
LESSON = "A cursor holds the sort key of the last row."


async def leave(stores: Stores, run: str, end: str = "succeeded", **values: object) -> None:
    """A run whose step leaves an artifact that is marked for the index."""
    told = {"artifacts": (ARTIFACT,), "indexed": (ARTIFACT,), "lesson": LESSON, **values}
    await pass_step(stores, run, "implement", **told)
    await end_run(stores, run, end)
    await make_knowledge(stores)


async def test_an_artifact_that_two_healthy_runs_share_is_a_candidate_and_not_found(stores: Stores) -> None:
    await leave(stores, "rel-1")
    assert await items_of(stores, "pattern") == []
    await leave(stores, "rel-2")
    (candidate,) = await items_of(stores, "pattern")
    await follow(stores)
    found = await search(SearchKnowledge(scope=SCOPE, query=ARTIFACT, kinds=("pattern",)), caller(), stores)
    assert (candidate["state"], candidate["title"], candidate["tags"]) == ("quarantined", ARTIFACT, ["code"])
    assert candidate["text"].splitlines() == [
        f"{ARTIFACT} was left by implement of release-checks in 2 healthy runs.",
        LESSON,
    ]
    assert found.items == ()
    assert await differences(stores) == []


@pytest.mark.parametrize("second", [{"end": "failed"}, {"indexed": ()}, {"indexed": ("api/other.py",)}])
async def test_what_is_not_marked_or_not_of_a_healthy_run_is_no_candidate(
    stores: Stores, second: dict[str, object]
) -> None:
    await leave(stores, "rel-1")
    await leave(stores, "rel-2", **second)
    assert await items_of(stores, "pattern") == []


async def test_a_run_that_visits_a_step_again_does_not_count_twice(stores: Stores) -> None:
    await pass_step(stores, "rel-1", "implement", indexed=(ARTIFACT,))
    await pass_step(stores, "rel-1", "polish", indexed=(ARTIFACT,))
    await end_run(stores, "rel-1")
    await make_knowledge(stores)
    assert await items_of(stores, "pattern") == []


async def test_a_candidate_that_is_accepted_is_found_and_left_as_it_is(stores: Stores) -> None:
    await leave(stores, "rel-1")
    await leave(stores, "rel-2")
    (candidate,) = await items_of(stores, "pattern")
    await accept(AcceptKnowledge(scope=SCOPE, id=candidate["id"]), caller(), stores)
    await leave(stores, "rel-3")
    await follow(stores)
    query = SearchKnowledge(scope=SCOPE, query="paging cursor", kinds=("pattern",), deadline_ms=20_000)
    found = await search(query, caller(), stores)
    assert [(item.title, item.level, item.trust) for item in found.items] == [("Api/paging.py", "L2", "reviewed")]
    assert await events_of(stores, "pattern_found") == 1
    assert await differences(stores) == []


async def test_only_a_candidate_can_be_accepted(stores: Stores) -> None:
    await pass_step(stores, "rel-1", "implement", lesson=LESSON)
    (lesson,) = await items_of(stores, "lesson")
    with pytest.raises(Rejected, match="it does not wait to be accepted"):
        await accept(AcceptKnowledge(scope=SCOPE, id=lesson["id"]), caller(), stores)
