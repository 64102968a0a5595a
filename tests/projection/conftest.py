"""A memory over a database of the test's own, what fills it with knowledge, and an index that fails when told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from memory import verify as verifying
from memory.errors import StoreUnavailable
from memory.journal.follow import FollowerSettings
from memory.knowledge import retire
from memory.learn import learn
from memory.stores import Caller, Stores
from memory.vectors.index import Document, Put
from memory.vectors.pgvector import PgvectorIndex
from memory.vectors.project import index_follower
from memory.verify import Verified, verify
from poimen.contracts.memory_calls import LearnFromExecution, RetireKnowledge
from tests.fixtures_postgres import Database
from tests.memory.acted_step import caller
from tests.memory.conftest import proxied, proxy, settings, stores

__all__ = ["proxied", "proxy", "settings", "stores"]

SCOPE = "acme/api"
SECONDS = 30.0


async def teach(stores: Stores, *lessons: str, scope: str = SCOPE, by: Caller | None = None) -> list[str]:
    """Report attempts that each leave a lesson; return the lessons' ids."""
    learned = []
    for lesson in lessons:
        call = LearnFromExecution(scope=scope, step="serve", run=f"run of {lesson}", outcome="succeeded", lesson=lesson)
        learned += (await learn(call, by or caller(), stores)).knowledge_ids
    return learned


async def forget(stores: Stores, *items: str, scope: str = SCOPE) -> None:
    """Retire items."""
    for item in items:
        await retire(RetireKnowledge(scope=scope, id=item), caller(), stores)


async def item_ids(database: Database) -> list[str]:
    """Return the ids of all items, in the order in which they were made; a caller is told a part of each."""
    return (await database.run_sql("select id from items order by created_position;")).split()


async def follow(stores: Stores, tenant: str = "local") -> None:
    """Bring the index up to date."""
    follower = index_follower(stores, tenant, FollowerSettings(deadline_seconds=SECONDS))
    while await follower.step():
        pass
    await follower._release()


async def differences(stores: Stores, verified: Verified | None = None, tenant: str = "local") -> list[str]:
    """Verify, and return what differs as text."""
    found = verify(stores, tenant, verified or Verified())
    return [f"{one.part} {one.id}: {one.detail}" async for one in found]


@dataclass
class FailingIndex:
    """The real index, which refuses the items in `poison` and does not answer to the puts that are told so.

    `puts` are the ids of what it was given, a list a put.
    """

    index: PgvectorIndex
    poison: set[str] = field(default_factory=set)
    down: Callable[[int], bool] = lambda number: False
    puts: list[list[str]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.index, name)

    async def put(self, documents: Sequence[Document], *, deadline_seconds: float) -> tuple[Put, ...]:
        self.puts.append([document.id for document in documents])
        if self.down(len(self.puts)):
            raise StoreUnavailable("The index does not answer.")
        good = [document for document in documents if document.id not in self.poison]
        stored = {put.id: put for put in await self.index.put(good, deadline_seconds=deadline_seconds)}
        refused = {item: Put(item, "failed", "mapper_parsing_exception") for item in self.poison}
        return tuple((stored | refused)[document.id] for document in documents)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verify looks again at once: Postgres has what was written."""
    monkeypatch.setattr(verifying, "BETWEEN_LOOKS_SECONDS", 0.0)


@pytest.fixture
def failing(stores: Stores) -> tuple[Stores, FailingIndex]:
    """The stores with an index that can be told to fail."""
    assert isinstance(stores.index, PgvectorIndex)
    index = FailingIndex(stores.index)
    return replace(stores, index=index), index
