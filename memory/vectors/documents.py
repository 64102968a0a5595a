"""Items as an index holds them: read from the tables, in pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from memory.postgres import Row, Transaction, load_queries
from memory.vectors.index import Document

SQL = load_queries(__package__, "documents.sql")
# Longer than any transaction may take: a change is dated within it, and seen after it.
LONGEST_TRANSACTION: Final = timedelta(seconds=60)
_BEGINNING: Final = ("", "")


@dataclass(frozen=True, slots=True)
class Change:
    """A place in the order of changes: when an item was changed, and which."""

    at: datetime
    id: str = ""


def document(row: Row) -> Document:
    """Give an item as the index holds it, under the version of its row."""
    words = (row["title"], row["text"], row["step"], *row["tags"])
    return Document(
        tenant=row["tenant"],
        scope=row["scope"],
        id=row["id"],
        kind=row["kind"],
        level=row["level"],
        text=" ".join(word for word in words if word),
        version=row["version"],
        state=row["state"],
        # In one zone, whatever the session's: the text of an instant is part of the digest.
        recorded_at=row["updated_at"].astimezone(UTC),
    )


async def documents_of(tx: Transaction, ids: Sequence[str]) -> list[Document]:
    """Give some items, whatever their state; one that is not on record is left out."""
    return [document(row) for row in await tx.rows(SQL["some_items"], ids=list(ids))]


async def documents_after(tx: Transaction, after: tuple[str, str] | None, limit: int) -> list[Document]:
    """Give the next items in order of (scope, id), by code points, whatever their state."""
    scope, item = after or _BEGINNING
    return [document(row) for row in await tx.rows(SQL["items_after"], scope=scope, id=item, limit=limit)]


async def documents_changed_after(tx: Transaction, after: Change, limit: int) -> list[tuple[Change, Document]]:
    """Give the next items in the order of their last change."""
    rows = await tx.rows(SQL["items_changed_after"], changed_at=after.at, id=after.id, limit=limit)
    return [(Change(row["updated_at"], row["id"]), document(row)) for row in rows]


async def changes_from_now(tx: Transaction) -> Change:
    """Give a place that lies before every change which this transaction does not see yet."""
    row = await tx.row(SQL["now"])
    assert row is not None
    return Change(row["now"] - LONGEST_TRANSACTION)
