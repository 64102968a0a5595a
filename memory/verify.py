"""Verify: compare the journal, the items made from it, the index and the vault, and name every difference."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final, LiteralString

from memory.compare import SECONDS, Compared, Difference, Key, compare_page
from memory.journal.follow import first_not_passed
from memory.postgres import Row, load_queries, tenant_transaction
from memory.stores import Stores
from memory.vectors.index import Document
from memory.vectors.project import FOLLOWER

SQL = load_queries(__package__, "verify.sql")
A_STRETCH: Final = 2_000
LOOKS: Final = 3
# What is written is found in the index within a second.
BETWEEN_LOOKS_SECONDS: Final = 1.5
# Pages that are looked at again; where more differ, waiting would only take time.
MOST_PATIENCE: Final = 10


@dataclass(slots=True)
class Verified:
    """What was compared; `waiting` counts what differs only because the index is behind the journal."""

    counts: Counter[str] = field(default_factory=Counter)
    generation: int | None = None
    waiting: int = 0


async def verify(stores: Stores, tenant: str, verified: Verified) -> AsyncIterator[Difference]:
    """Give every difference as it is found, and count in `verified` what was compared.

    Works beside writers: what an event changed that the index has not followed yet is no difference. Raises
    StoreUnavailable when one of them cannot be read.
    """
    async for difference in _journal_and_items(stores, tenant, verified):
        yield difference
    async for difference in _index(stores, tenant, verified):
        yield difference
    shelf = await stores.notes.read(tenant)
    verified.counts["notes"] = len(shelf.notes)
    for problem in shelf.problems:
        yield Difference("vault", "", "", f"cannot be read: {problem}")


async def _journal_and_items(stores: Stores, tenant: str, verified: Verified) -> AsyncIterator[Difference]:
    stretches: tuple[tuple[str, LiteralString, LiteralString, object], ...] = (
        ("events", SQL["journal_page"], SQL["items_not_as_recorded"], 0),
        ("items", SQL["items_page"], SQL["items_without_event"], ""),
    )
    for name, page, differing, beginning in stretches:
        after: object = beginning
        while True:
            async with tenant_transaction(stores.pool, tenant, deadline_seconds=SECONDS) as tx:
                found = await tx.row(page, after=after, limit=A_STRETCH)
                rows = await tx.rows(differing, after=after, last=found["last"]) if found and found["count"] else []
            for row in rows:
                yield _difference(row)
            if found is None or not found["count"]:
                break
            verified.counts[name] += found["count"]
            after = found["last"]


def _difference(row: Row) -> Difference:
    if "position" not in row:
        return Difference("journal", row["scope"], row["id"], "names an event that is not in the journal")
    event, version = row["position"], row["version"]
    if version is None:
        return Difference("items", row["scope"], row["id"], f"is not on record, and event {event} made or changed it")
    said = f"is older (version {version}) than event {event}, which changed it"
    return Difference("items", row["scope"], row["id"], said)


async def _index(stores: Stores, tenant: str, verified: Verified) -> AsyncIterator[Difference]:
    known = await stores.index.generations(tenant, deadline_seconds=SECONDS)
    live = next((generation for generation in known if generation.state == "live"), None)
    if live is None:
        said = "has no generation that is live; a memory worker builds one, and so does poimen rebuild --index"
        yield Difference("index", "", "", said)
        return
    verified.generation = live.number
    patience, after, compared = MOST_PATIENCE, None, 0
    while True:
        looked = await _looked_at(stores, tenant, live.number, after, LOOKS if patience else 1)
        for difference in looked.real:
            yield difference
        patience -= bool(patience and looked.real)
        verified.waiting += looked.waiting
        verified.counts["entries"] += looked.page.entries
        compared += looked.page.documents
        after = looked.page.after
        if after is None:
            break
    # Items are never deleted: fewer than were counted before are a comparison that ended too early.
    if compared < verified.counts["items"]:
        said = f"was compared with {compared:,} of {verified.counts['items']:,} items only; verify again"
        yield Difference("index", "", "", said)


@dataclass(frozen=True, slots=True)
class _Looked:
    page: Compared
    real: list[Difference]
    waiting: int


async def _looked_at(stores: Stores, tenant: str, number: int, after: Key | None, looks: int) -> _Looked:
    """Compare a page; what differs is looked at again, for both sides were not read in one instant."""
    for look in range(looks):
        if look:
            await asyncio.sleep(BETWEEN_LOOKS_SECONDS)
        page = await compare_page(stores, tenant, number, after)
        first = await _first_not_passed(stores, tenant) if page.differing else None
        real = [difference for difference, document in page.differing if not _waits(document, first)]
        if not real:
            break
    return _Looked(page, real, len(page.differing) - len(real))


async def _first_not_passed(stores: Stores, tenant: str) -> int | None:
    async with tenant_transaction(stores.pool, tenant, deadline_seconds=SECONDS) as tx:
        return await first_not_passed(tx, FOLLOWER)


def _waits(document: Document | None, first_not_passed: int | None) -> bool:
    # An item's version is never below the position of the event that changed it last.
    return document is not None and first_not_passed is not None and document.version >= first_not_passed
