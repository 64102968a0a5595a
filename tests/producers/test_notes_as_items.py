from dataclasses import replace
from pathlib import Path

from memory.knowledge import retire, search
from memory.notes.shelf import NoteVault
from memory.producers.notes import NoteKeeper
from memory.recall import recall
from memory.stores import Stores
from poimen.contracts.memory_calls import GetContext, RetireKnowledge, SearchKnowledge
from tests.memory.acted_step import caller
from tests.producers.conftest import events_of, items_of
from tests.projection.conftest import SCOPE, differences, follow

TEMPLATE = """---
kind: reference
title: Template for paged lists
---
Every list of the api takes a cursor and a page size.
"""


def written(stores: Stores, text: str, name: str = "templates/paged-lists.md") -> Path:
    path = stores.notes.folder / "local" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def bare(stores: Stores) -> Stores:
    """The same stores without the notes that are shipped."""
    return replace(stores, notes=NoteVault(stores.settings.vault_path))


async def test_the_notes_that_are_shipped_are_references_of_the_library(stores: Stores) -> None:
    shipped = (await stores.notes.read("local")).notes
    assert await NoteKeeper(stores, "local").keep() == len(shipped)
    rows = [row for kind in ("reference", "pattern", "skill") for row in await items_of(stores, kind)]
    assert {(row["scope"], row["level"], row["trust"], row["origin"]) for row in rows} == {
        ("@library", "R", "reviewed", "import")
    }
    assert len(rows) == len(shipped)


async def test_a_note_is_brought_once_by_every_worker_together(stores: Stores) -> None:
    written(stores, TEMPLATE)
    one = bare(stores)
    assert await NoteKeeper(one, "local").keep() == 1
    assert await NoteKeeper(one, "local").keep() == 0
    assert await events_of(stores, "note_read") == 1


async def test_a_note_that_changes_is_a_revision_and_one_that_goes_is_withdrawn(stores: Stores) -> None:
    path, keeper = written(stores, TEMPLATE), NoteKeeper(bare(stores), "local")
    written(stores, "# Another\n\nIt stays.", "another.md")
    await keeper.keep()
    written(stores, TEMPLATE.replace("cursor", "token"))
    await keeper.keep()
    changed = next(row for row in await items_of(stores, "reference") if row["title"] == "Template for paged lists")
    path.unlink()
    await keeper.keep()
    await follow(stores)
    states = {row["title"]: (row["state"], row["revision"]) for row in await items_of(stores, "reference")}
    assert (changed["revision"], "a token and" in changed["text"]) == (2, True)
    assert states == {"Template for paged lists": ("retired", 3), "Another": ("active", 1)}
    assert await differences(stores) == []


async def test_a_note_that_went_while_no_worker_looked_is_withdrawn_and_comes_back_with_its_file(
    stores: Stores,
) -> None:
    path, one = written(stores, TEMPLATE), bare(stores)
    written(stores, "# Another\n\nIt stays.", "another.md")
    await NoteKeeper(one, "local").keep()
    path.unlink()
    keeper = NoteKeeper(one, "local")
    await keeper.keep()
    gone = {row["state"] for row in await items_of(stores, "reference") if "paged" in row["title"]}
    written(stores, TEMPLATE)
    await keeper.keep()
    back = {row["state"] for row in await items_of(stores, "reference") if "paged" in row["title"]}
    assert (gone, back) == ({"retired"}, {"active"})


async def test_nothing_is_withdrawn_while_a_note_cannot_be_read(stores: Stores) -> None:
    path, keeper = written(stores, TEMPLATE), NoteKeeper(bare(stores), "local")
    written(stores, "# Another\n\nIt stays.", "another.md")
    await keeper.keep()
    path.write_text("---\nkind: [\n---\n")
    assert await keeper.keep() == 0
    path.unlink()
    assert await keeper.keep() == 1


async def test_a_note_that_a_person_retired_comes_back_when_it_says_something_else(stores: Stores) -> None:
    one = bare(stores)
    written(stores, TEMPLATE)
    await NoteKeeper(one, "local").keep()
    (note,) = await items_of(stores, "reference")
    await retire(RetireKnowledge(scope=note["scope"], id=note["id"]), caller(), stores)
    assert await NoteKeeper(one, "local").keep() == 0
    written(stores, TEMPLATE.replace("cursor", "token"))
    assert await NoteKeeper(one, "local").keep() == 1


async def test_the_secrets_of_a_note_are_masked(stores: Stores) -> None:
    written(stores, TEMPLATE + "\npassword=correct-horse-battery-staple\n")
    await NoteKeeper(bare(stores), "local").keep()
    (note,) = await items_of(stores, "reference")
    assert "correct-horse" not in note["text"]


async def test_a_note_is_delivered_once_though_two_tiers_find_it(stores: Stores) -> None:
    one = bare(stores)
    written(stores, TEMPLATE)
    await NoteKeeper(one, "local").keep()
    await follow(stores)
    task = "add paged lists to the api: cursor, page size"
    package = await recall(GetContext(scope=SCOPE, task=task, deadline_ms=20_000), caller(), one)
    found = await search(SearchKnowledge(scope=SCOPE, query=task, deadline_ms=20_000), caller(), one)
    assert [report.found for report in package.tiers if report.tier == "vectors"] == [1]
    assert [(item.title, item.tier) for item in package.items] == [("Template for paged lists", "vault")]
    assert [item.title for item in found.items] == ["Template for paged lists"]


async def test_a_note_for_another_tool_is_not_delivered_by_the_index_either(stores: Stores) -> None:
    one = bare(stores)
    written(stores, TEMPLATE.replace("kind: reference", "kind: reference\ntools: [planner]"))
    await NoteKeeper(one, "local").keep()
    await follow(stores)
    task = "add paged lists to the api: cursor, page size"
    asked = {
        tool: await recall(GetContext(scope=SCOPE, task=task, tool=tool, deadline_ms=20_000), caller(), one)
        for tool in ("planner", "verifier")
    }
    assert {tool: len(package.items) for tool, package in asked.items()} == {"planner": 1, "verifier": 0}
