"""Many reporters at once, reports that come twice or late, one failure in two scopes, alerts from outside."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from memory.analyze import analyze
from memory.errors import StoreUnavailable
from memory.learn import learn
from memory.settings import MemorySettings
from memory.stores import Caller, Stores, build_stores
from poimen.contracts.memory_calls import Analysis, AnalyzeError, AppliedAction, Learned, LearnFromExecution
from tests.fixtures_postgres import Database
from tests.memory.acted_step import PORT_TAKEN, ActedStep, caller, cured_by

WORKERS, STEPS = 1_000, 20
FREE_PORT = AppliedAction(kind="repair", repair="free-port", exit_code=0, since_first_failure_seconds=1.0)
Report = Callable[[], Awaitable[object]]


@asynccontextmanager
async def opened(settings: MemorySettings) -> AsyncIterator[Stores]:
    built = build_stores(settings)
    await built.pool.open()
    try:
        yield built
    finally:
        await built.pool.close()


async def failed(stores: Stores, who: Caller | None = None, **values: Any) -> Analysis:
    given = {"scope": "acme/api", "step": "serve", "repairs": ("reboot", "free-port"), "attempts_left": 3, **values}
    return await analyze(AnalyzeError(error=PORT_TAKEN, **given), who or caller(), stores)


async def cleared(stores: Stores, who: Caller | None = None, **values: Any) -> Learned:
    """Report that attempt 2 succeeded after `free-port`."""
    given = {"scope": "acme/api", "step": "serve", "attempt": 2, "applied": FREE_PORT, **values}
    return await learn(LearnFromExecution(outcome="succeeded", **given), who or caller(), stores)


async def count(database: Database, table: str) -> int:
    return int((await database.run_sql(f"select count(*) from {table};")).strip())


async def test_a_thousand_workers_that_report_at_once_are_each_recorded_once(
    settings: MemorySettings, database: Database
) -> None:
    """Some more than the pool lets wait: who is refused reports again under the same key, as the backlog does."""
    answers: list[Analysis] = []
    async with opened(replace(settings, pool_max_waiting=WORKERS - 50)) as stores:
        waiting = [(caller(), f"rel-{number}", f"step-{number % STEPS}") for number in range(WORKERS)]
        while waiting:
            sent = [failed(stores, who, run=run, step=step) for who, run, step in waiting]
            told = await asyncio.gather(*sent, return_exceptions=True)
            answers += [answer for answer in told if isinstance(answer, Analysis)]
            waiting = [one for one, answer in zip(waiting, told, strict=True) if isinstance(answer, StoreUnavailable)]
    assert len({answer.event_id for answer in answers}) == WORKERS
    assert {answer.advice.repair for answer in answers} == {"reboot"}
    assert await count(database, "attempts") == WORKERS
    assert await count(database, "journal") == WORKERS
    assert await count(database, "items") == STEPS
    assert await count(database, "signatures") == 1


async def test_many_workers_that_recover_at_once_teach_one_cure(stores: Stores) -> None:
    async def recovers(run: str) -> None:
        await failed(stores, run=run)
        await cleared(stores, run=run)

    await asyncio.gather(*(recovers(f"r{n}") for n in range(50)))
    advice = (await failed(stores, run="next")).advice
    assert advice.repair == "free-port"
    assert advice.because.endswith("free-port worked 50 of 50")


def reports(stores: Stores, scope: str) -> list[Report]:
    """The reports of two runs: in the first `reboot` did not help and `free-port` did, in the second it did at once."""
    reboot = AppliedAction(kind="repair", repair="reboot", exit_code=0, since_first_failure_seconds=1.0)
    return [
        lambda: failed(stores, scope=scope, run="a", attempt=1),
        lambda: failed(stores, scope=scope, run="a", attempt=2, applied=reboot),
        lambda: cleared(stores, scope=scope, run="a", attempt=3),
        lambda: failed(stores, scope=scope, run="b", attempt=1),
        lambda: cleared(stores, scope=scope, run="b", attempt=2),
    ]


@pytest.mark.parametrize("order", [[2, 0, 1, 3, 4], [1, 4, 3, 2, 0], [0, 0, 1, 2, 1, 3, 2, 4, 3, 4, 0]])
async def test_reports_that_come_late_or_twice_teach_the_same(stores: Stores, order: list[int]) -> None:
    for scope, told in (("in-order", [0, 1, 2, 3, 4]), ("out-of-order", order)):
        sent = reports(stores, scope)
        for number in told:
            await sent[number]()
    expected, answer = [await failed(stores, scope=scope, run="c") for scope in ("in-order", "out-of-order")]
    assert expected.advice.because == "address in use, known since a; free-port worked 2 of 2"
    assert answer.advice == expected.advice
    assert answer.recovery_steps == expected.recovery_steps
    assert answer.lessons[0].text == expected.lessons[0].text


async def test_one_failure_has_a_cure_of_its_own_in_each_of_two_scopes(stores: Stores) -> None:
    cures = {"acme/api": "free-port", "acme/web": "reboot"}
    steps = {scope: ActedStep(stores, scope=scope, repairs=("wipe", "free-port", "reboot")) for scope in cures}
    for run in ("rel-1", "rel-2"):
        acted = {scope: await step.run(f"{run}-{scope}", cured_by(cures[scope])) for scope, step in steps.items()}
    first = {scope: one.analyses[0] for scope, one in acted.items()}
    assert len({analysis.signature for analysis in first.values()}) == 1
    assert {scope: analysis.advice.repair for scope, analysis in first.items()} == cures
    assert {one.end for one in acted.values()} == {"succeeded"}


async def test_one_failure_has_a_cure_of_its_own_in_each_of_two_steps(stores: Stores) -> None:
    cures = {"serve": "free-port", "deploy": "reboot"}
    steps = {name: ActedStep(stores, step=name, repairs=("wipe", "free-port", "reboot")) for name in cures}
    for run in ("rel-1", "rel-2"):
        acted = {name: await step.run(run, cured_by(cures[name])) for name, step in steps.items()}
    first = {name: one.analyses[0] for name, one in acted.items()}
    assert len({analysis.signature for analysis in first.values()}) == 1
    assert {name: analysis.advice.repair for name, analysis in first.items()} == cures


async def test_clearing_one_alert_says_nothing_of_new_ones_of_its_shape(stores: Stores) -> None:
    """Each alert is an occurrence of its own, open until it is itself cleared."""
    alert = {"step": "page-on-call", "tool": "alerts"}
    first = await failed(stores, occurrence_id="alert-1", **alert)
    assert first.seen_before is None
    await cleared(stores, occurrence_id="alert-1", **alert)
    raised = [await failed(stores, occurrence_id=f"alert-{n}", **alert) for n in range(2, 15)]
    assert not any(answer.duplicate for answer in raised)
    assert [answer.seen_before and answer.seen_before.occurrences for answer in raised] == list(range(1, 14))
    assert {(answer.advice.verdict, answer.advice.repair) for answer in raised} == {("repair", "free-port")}
    for number in range(2, 15):
        learned = await cleared(stores, occurrence_id=f"alert-{number}", **alert)
        assert learned.learned == (f"free-port ended address in use, now {number} of {number}",)
    answer = await failed(stores, occurrence_id="alert-15", **alert)
    assert answer.advice.because.endswith("free-port worked 14 of 14")


async def test_an_alert_that_is_reported_again_is_the_same_occurrence(stores: Stores) -> None:
    for _ in range(3):
        await failed(stores, occurrence_id="alert-1")
    answer = await failed(stores, occurrence_id="alert-2")
    assert answer.seen_before is not None
    assert answer.seen_before.occurrences == 1


async def test_an_alert_of_the_same_number_in_another_scope_stays_open(stores: Stores) -> None:
    await failed(stores, occurrence_id="alert-1")
    await failed(stores, occurrence_id="alert-1", scope="acme/web")
    await cleared(stores, occurrence_id="alert-1")
    answer = await failed(stores, occurrence_id="alert-2", scope="acme/web")
    assert answer.advice.because == "address in use, known since alert-1; nothing was tried yet; the step's own order"
