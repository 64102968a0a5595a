"""One index for all kinds of knowledge, over the real store and the model that production uses."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from memory.accept import accept
from memory.knowledge import search
from memory.notes.shelf import NoteVault
from memory.producers.notes import NoteKeeper
from memory.settings import MemorySettings
from memory.stores import Stores, build_stores
from poimen.contracts.memory_calls import AcceptKnowledge, SearchKnowledge
from tests.memory.acted_step import caller
from tests.producers.conftest import end_run, items_of, make_knowledge, pass_step, ported_run
from tests.producers.test_notes_as_items import TEMPLATE, written
from tests.projection.conftest import SCOPE, differences, follow

QUESTION = "multi-tenant user management with roles"
ROLES = "src/tenants/user_roles.py"
BLUEPRINT = """---
kind: reference
title: Blueprint of user administration
---
Accounts belong to an organisation. Grant permissions by role within each tenant, never to a single user.
"""


@pytest_asyncio.fixture(loop_scope="session")
async def meaning(settings: MemorySettings) -> AsyncIterator[Stores]:
    """The stores with vectors of meaning, and without the notes that are shipped."""
    built = build_stores(replace(settings, embedder="minilm"))
    await built.open()
    yield replace(built, notes=NoteVault(settings.vault_path))
    await built.close()


@pytest_asyncio.fixture(loop_scope="session")
async def filled(meaning: Stores) -> Stores:
    for run in ("crm-1", "crm-2"):
        values = {"artifacts": (ROLES,), "indexed": (ROLES,), "result": "roles of the users of a tenant"}
        decision = "keep the roles of users in one table, with the tenant in its key"
        await pass_step(meaning, run, "model-users", decision=decision, **values)
        await end_run(meaning, run, definition="user-management")
        await ported_run(meaning, f"other-{run}")
    written(meaning, BLUEPRINT, "templates/users.md")
    written(meaning, TEMPLATE)
    await make_knowledge(meaning)
    await NoteKeeper(meaning, "local").keep()
    candidate = next(row for row in await items_of(meaning, "pattern") if row["state"] == "quarantined")
    await accept(AcceptKnowledge(scope=SCOPE, id=candidate["id"]), caller(), meaning)
    await follow(meaning)
    return meaning


async def test_asking_for_user_management_finds_a_past_run_a_template_and_a_code_pattern(filled: Stores) -> None:
    call = SearchKnowledge(scope=SCOPE, query=QUESTION, tiers=("vectors",), limit=4, deadline_ms=20_000)
    found = [(item.kind, item.title) for item in (await search(call, caller(), filled)).items]
    assert ("run", "User-management succeeded (run crm-1)") in found
    assert ("reference", "Blueprint of user administration") in found
    assert ("pattern", "Src/tenants/user_roles.py") in found
    # Nothing of the runs, the pattern and the template of other subjects is before them.
    assert sorted(kind for kind, _ in found) == ["pattern", "reference", "run", "run"]
    assert await differences(filled) == []


@pytest.mark.parametrize("kind", ["run", "reference", "pattern"])
async def test_each_kind_can_be_asked_for_alone(filled: Stores, kind: str) -> None:
    call = SearchKnowledge(scope=SCOPE, query=QUESTION, kinds=(kind,), deadline_ms=20_000)
    assert {item.kind for item in (await search(call, caller(), filled)).items} == {kind}
