import asyncio

import pytest

from memory.document import document
from memory.errors import NotFound
from memory.knowledge import search
from memory.producers.run_summary import LONGEST_SUMMARY, RunTold, summary_text
from memory.producers.runs import summarise
from memory.stores import Stores
from poimen.contracts.memory_calls import DocumentDecision, SearchKnowledge, SummariseRun
from tests.memory.acted_step import ActedStep, caller, healthy
from tests.producers.conftest import end_run, events_of, items_of, make_knowledge, pass_step, ported_run
from tests.projection.conftest import SCOPE, differences, follow


async def test_a_run_that_ends_leaves_a_summary_by_rule(stores: Stores) -> None:
    await pass_step(stores, "rel-1", "plan", decision="keep one port a tenant", artifacts=("plan.md",))
    await ported_run(stores, "rel-1")
    await make_knowledge(stores)
    (summary,) = await items_of(stores, "run")
    assert summary["title"] == "release-checks succeeded (run rel-1)"
    assert summary["text"].splitlines() == [
        "succeeded: all steps are through (3 attempts, 90 s).",
        "Steps: plan; serve.",
        "Decided: plan: keep one port a tenant.",
        "Failed: serve: address in use, ended by free-port.",
        "Left behind: plan.md.",
    ]


async def test_a_summary_is_made_once_however_often_it_is_asked_for(stores: Stores) -> None:
    await ported_run(stores, "rel-1")
    await make_knowledge(stores)
    call = SummariseRun(scope=SCOPE, run="rel-1")
    again = await asyncio.gather(*(summarise(call, caller(), stores) for _ in range(3)))
    assert [one.changed for one in again] == [False] * 3
    assert await events_of(stores, "run_summarised") == 1


async def test_a_run_without_an_end_is_summarised_when_asked_and_again_at_its_end(stores: Stores) -> None:
    await ActedStep(stores).run("rel-1", healthy)
    first = await summarise(SummariseRun(scope=SCOPE, run="rel-1"), caller(), stores)
    await end_run(stores, "rel-1", "failed")
    await make_knowledge(stores)
    (summary,) = await items_of(stores, "run")
    assert first.title == "Run rel-1 is not ended"
    assert (summary["title"], summary["revision"]) == ("release-checks failed (run rel-1)", 2)


async def test_a_run_may_be_named_by_its_workflow_id(stores: Stores) -> None:
    call = DocumentDecision(scope=SCOPE, run="01f3", kind="run_final", decision="failed: no disk", end="failed")
    await document(call, caller(workflow_id="rel-9"), stores)
    made = await summarise(SummariseRun(scope=SCOPE, run="rel-9"), caller(), stores)
    assert (made.title, made.text) == ("Run rel-9 failed", "failed: no disk.")


async def test_a_run_that_is_not_on_record_has_no_summary(stores: Stores) -> None:
    with pytest.raises(NotFound):
        await summarise(SummariseRun(scope=SCOPE, run="nobody's"), caller(), stores)


async def test_a_summary_is_found_by_its_kind_and_the_index_agrees_with_the_record(stores: Stores) -> None:
    await ported_run(stores, "rel-1")
    await make_knowledge(stores)
    await follow(stores)
    query = SearchKnowledge(scope=SCOPE, query="release checks address in use", kinds=("run",), deadline_ms=20_000)
    found = await search(query, caller(), stores)
    assert [(item.kind, item.trust) for item in found.items] == [("run", "unverified")]
    assert await differences(stores) == []


def test_the_summary_of_a_long_run_is_bounded() -> None:
    steps = [
        DocumentDecision(scope=SCOPE, step=f"step-{n}", kind="step_completion", decision="x" * 4_000, end="succeeded")
        for n in range(300)
    ]
    text = summary_text(RunTold(name="rel-1", decisions=steps, artifacts=["a" * 4_000] * 20))
    assert len(text) <= LONGEST_SUMMARY
    assert text.startswith("not ended yet.\nSteps: step-0; step-1;")
