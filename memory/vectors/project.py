"""Keep the index in step with the journal: what a follower of it hands its events to."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from memory import items
from memory.errors import Rejected
from memory.journal import RecordedEvent
from memory.postgres import Row, tenant_transaction
from memory.stores import Stores
from memory.vectors.index import Document

FOLLOWER: Final = "vectors"
DEADLINE_SECONDS: Final = 5.0


def index_projection(stores: Stores) -> Callable[[Sequence[RecordedEvent]], Awaitable[None]]:
    """Give the function that brings the items of some events into the index; a repeated event changes nothing."""

    async def apply(events: Sequence[RecordedEvent]) -> None:
        latest: dict[tuple[str, str], int] = {}
        for event in events:
            for item in event.result.get("items", ()):
                latest[event.tenant, item] = max(event.position, latest.get((event.tenant, item), 0))
        for (tenant, item), version in latest.items():
            await _index(stores, tenant, item, version)

    return apply


async def _index(stores: Stores, tenant: str, item: str, version: int) -> None:
    async with tenant_transaction(stores.pool, tenant, deadline_seconds=DEADLINE_SECONDS) as tx:
        row = await tx.row(items.SQL["item"], id=item)
    if row is None:
        return
    # The row may be newer than the event; then a later event brings the same text under its own version.
    (put,) = await stores.index.put([_document(row, version)], deadline_seconds=DEADLINE_SECONDS)
    if put.outcome == "failed":
        raise Rejected(put.because or "The index refuses the document.")


def _document(row: Row, version: int) -> Document:
    words = (row["title"], row["text"], row["step"], *row["tags"])
    return Document(
        tenant=row["tenant"],
        scope=row["scope"],
        id=row["id"],
        kind=row["kind"],
        level=row["level"],
        text=" ".join(word for word in words if word) if row["state"] == "active" else "",
        version=version,
        state=row["state"],
        recorded_at=row["created_at"],
    )
