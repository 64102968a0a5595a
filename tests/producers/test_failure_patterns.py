from memory.knowledge import retire
from memory.stores import Stores
from poimen.contracts.memory_calls import RetireKnowledge
from tests.memory.acted_step import ActedStep, caller, incurable
from tests.producers.conftest import events_of, items_of, make_knowledge, ported_run
from tests.projection.conftest import SCOPE, differences, follow


async def test_a_failure_that_was_ended_in_two_runs_is_a_pattern(stores: Stores) -> None:
    await ported_run(stores, "rel-1")
    await make_knowledge(stores)
    assert await items_of(stores, "pattern") == []
    await ported_run(stores, "rel-2")
    await make_knowledge(stores)
    (pattern,) = await items_of(stores, "pattern")
    assert pattern["title"] == "address in use in serve"
    assert pattern["text"].startswith("serve failed 2 times in 2 runs: address in use. Ended by: free-port (2 of 2).")
    assert (pattern["state"], pattern["trust"], pattern["tags"]) == ("active", "observed", ["failure"])


async def test_a_failure_that_nothing_ended_is_no_pattern(stores: Stores) -> None:
    for run in ("rel-1", "rel-2"):
        await ActedStep(stores).run(run, incurable())
    await make_knowledge(stores)
    assert await items_of(stores, "pattern") == []


async def test_a_pattern_grows_with_its_evidence_and_not_by_repetition(stores: Stores) -> None:
    for run in ("rel-1", "rel-2", "rel-3"):
        # Prevention would keep the third run from failing at all.
        await ActedStep(stores, repairs=("free-port",)).run(run, lambda done: None if len(done) else "no such port 80")
        await make_knowledge(stores)
    (pattern,) = await items_of(stores, "pattern")
    events = await events_of(stores, "pattern_found")
    await make_knowledge(stores)
    assert pattern["revision"] == events
    assert await events_of(stores, "pattern_found") == events


async def test_a_pattern_goes_with_the_lesson_it_was_made_from(stores: Stores) -> None:
    await ported_run(stores, "rel-1")
    await ported_run(stores, "rel-2")
    await make_knowledge(stores)
    (lesson,) = await items_of(stores, "lesson")
    await retire(RetireKnowledge(scope=SCOPE, id=lesson["id"]), caller(), stores)
    await make_knowledge(stores)
    await follow(stores)
    (pattern,) = await items_of(stores, "pattern")
    assert pattern["state"] == "retired"
    assert await differences(stores) == []


async def test_a_pattern_that_a_person_retired_stays_retired(stores: Stores) -> None:
    await ported_run(stores, "rel-1")
    await ported_run(stores, "rel-2")
    await make_knowledge(stores)
    (pattern,) = await items_of(stores, "pattern")
    await retire(RetireKnowledge(scope=SCOPE, id=pattern["id"]), caller(), stores)
    await ActedStep(stores).run(
        "rel-3", lambda done: None if len(done) > 1 else "OSError: [Errno 98] Address already in use"
    )
    await make_knowledge(stores)
    (pattern,) = await items_of(stores, "pattern")
    assert pattern["state"] == "retired"
