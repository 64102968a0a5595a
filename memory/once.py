"""Record a call exactly once: who makes it again gets the answer that it had."""

import contextlib
from collections.abc import AsyncIterator
from typing import Generic, NamedTuple, TypeVar

from memory.journal import Entry, EventKind, describe, entry
from memory.limits import restored
from memory.postgres import Transaction, tenant_transaction
from memory.stores import Caller, Stores
from poimen.contracts.memory_calls import Call
from poimen.contracts.message import Message, encode

A = TypeVar("A", bound=Message)


class Opened(NamedTuple, Generic[A]):
    """The open transaction of a call, its place in the journal, and what it was answered before, if it was."""

    tx: Transaction
    entry: Entry
    stored: A | None


@contextlib.asynccontextmanager
async def once(
    kind: EventKind, masked: Call, answer: type[A], caller: Caller, stores: Stores
) -> AsyncIterator[Opened[A]]:
    """Open the place of a masked call in the journal; the block gives back `stored`, else `finish`es the entry.

    Raises Conflict when the key was used for another request, StoreUnavailable when it cannot be written in time.
    """
    event = describe(kind, masked, encode(masked), tenant=caller.tenant, provenance=caller.provenance)
    async with (
        tenant_transaction(stores.pool, caller.tenant, deadline_seconds=caller.deadline_seconds) as tx,
        entry(tx, event) as record,
    ):
        stored = None
        if record.stored is not None:
            told = restored(answer, record.stored.result["answer"])
            stored = told.model_copy(update={"duplicate": True})
        yield Opened(tx, record, stored)
