"""Long texts are worked on beside the event loop: other calls go on meanwhile."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path

import pytest

from memory.analyze import analyze
from memory.items import told_aside
from memory.journal import Origin, Provenance
from memory.masking import Masker
from memory.notes.shelf import NoteVault
from memory.postgres import tenant_transaction
from memory.recall import recall
from memory.scrub import scrub
from memory.step_knowledge import MOST_DELIVERED, MOST_OBSERVED, StepRecord, read_step
from memory.stores import Stores
from poimen.contracts.memory_calls import AnalyzeError, GetContext
from tests.fixtures_postgres import Database
from tests.memory.acted_step import caller
from tests.memory.busy_step import SCOPE, STEP, fill_busy_step

LONGEST = 262_144
SECRETS = "2026-01-31T12:00:00 ERROR password: hunter2-hunter2 in /srv/app.py line 12\n"


async def turns_during(work: Awaitable[object]) -> int:
    """Count how often somebody else had a turn while the work went on."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(others())
    await work
    task.cancel()
    return turns


def failed(text: str) -> AnalyzeError:
    return AnalyzeError(scope="acme/api", step="serve", error=(text * (LONGEST // len(text) + 1))[:LONGEST])


@pytest.mark.parametrize("text", [SECRETS, "x", "word "])
async def test_others_have_their_turn_while_a_long_text_is_masked(text: str) -> None:
    assert await turns_during(scrub(failed(text), Masker(b"k"))) > 3


async def test_a_short_text_is_masked_without_a_thread() -> None:
    call = AnalyzeError(scope="acme/api", error=SECRETS)
    assert await turns_during(scrub(call, Masker(b"k"))) == 0


async def test_the_longest_error_is_analysed_and_none_of_its_secrets_is_kept(stores: Stores) -> None:
    analysis = await analyze(failed(SECRETS), caller(), stores)
    assert analysis.signature
    assert "hunter2" not in analysis.model_dump_json()


async def test_many_notes_are_looked_at_and_the_fitting_one_is_delivered(stores: Stores, tmp_path: Path) -> None:
    folder = tmp_path / "many" / "local"
    folder.mkdir(parents=True)
    for number in range(300):
        (folder / f"note-{number}.md").write_text(f"---\nsteps: step-{number}\n---\n# Note {number}\n\nNumber it.\n")
    many = replace(stores, notes=NoteVault(tmp_path / "many"))
    call = GetContext(scope="acme/api", step="step-7", deadline_ms=20_000)
    assert [item.title for item in (await recall(call, caller(), many)).items] == ["Note 7"]


async def read(stores: Stores, call: GetContext) -> StepRecord:
    async with tenant_transaction(stores.pool, "local", deadline_seconds=20) as tx:
        return await read_step(tx, call, Provenance(key="k", origin=Origin.CALLER))


async def test_of_a_busy_step_no_more_is_read_than_can_be_folded_in_time(stores: Stores, database: Database) -> None:
    await fill_busy_step(database, kinds=12, runs=200, attempts=12)
    record = await read(stores, GetContext(scope=SCOPE, step=STEP, last_signature="s1:7"))
    assert record.lessons[0]["signature"] == "s1:7"
    assert len(record.lessons) == MOST_DELIVERED
    assert len(record.attempts) == MOST_OBSERVED
    # The latest of each lesson, and only what evidence is made of.
    assert {row["run"] for row in record.attempts} == {f"run-{number}" for number in range(151, 201)}
    assert "package_id" not in record.attempts[0]


async def test_a_step_that_is_tried_for_ever_is_known_by_its_latest_attempts(
    stores: Stores, database: Database
) -> None:
    await fill_busy_step(database, kinds=1, runs=1, attempts=5_000)
    record = await read(stores, GetContext(scope=SCOPE, step=STEP, attempt=5_001, run="run-1"))
    assert [row["attempt"] for row in record.attempts] == list(range(4_901, 5_001))


async def test_others_have_their_turn_while_much_evidence_is_folded(stores: Stores, database: Database) -> None:
    await fill_busy_step(database, kinds=12, runs=200, attempts=12)
    record = await read(stores, GetContext(scope=SCOPE, step=STEP))
    assert await turns_during(told_aside(record.lessons, record.attempts, "")) > 0
    assert await turns_during(told_aside(record.lessons, record.attempts[:10], "")) == 0


async def test_callers_of_a_busy_step_are_all_answered(stores: Stores, database: Database) -> None:
    await fill_busy_step(database, kinds=12, runs=200, attempts=12)
    call = GetContext(scope=SCOPE, step=STEP, deadline_ms=20_000, repairs=("mend",))
    packages = await asyncio.gather(*(recall(call, caller(), stores) for _ in range(8)))
    assert {report.status for package in packages for report in package.tiers} == {"answered"}
    assert all(len(package.items) == MOST_DELIVERED for package in packages)
