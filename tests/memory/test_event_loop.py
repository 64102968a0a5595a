"""Long texts are worked on beside the event loop: other calls go on meanwhile."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path

import pytest

from memory.analyze import analyze
from memory.masking import Masker
from memory.notes.shelf import NoteVault
from memory.recall import recall
from memory.scrub import scrub
from memory.stores import Stores
from poimen.contracts.memory_calls import AnalyzeError, GetContext
from tests.memory.acted_step import caller

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
