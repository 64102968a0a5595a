"""Keep items that are made by rule: made again they change nothing, and every change of one is an event."""

from dataclasses import replace
from typing import Any, Final

from memory import items
from memory.items import NewItem
from memory.journal import Event, EventKind, Origin, Provenance
from memory.journal.record import entry
from memory.postgres import Row, Transaction, load_queries

SQL = load_queries(__package__, "keep.sql")
LONGEST_TEXT: Final = 8_000
LONGEST_TITLE: Final = 200
MOST_TAGS: Final = 32
_RULES: Final = frozenset({Origin.MAINTENANCE, Origin.IMPORT, Origin.VAULT_EDITOR})


async def keep_item(tx: Transaction, made: NewItem, kind: EventKind, origin: Origin) -> bool:
    """Add an item, or bring it to what it says now; return whether that changed anything.

    What a person retired stays so, unless it comes from a note that was changed since. A candidate that somebody
    decided on is left as it was decided.
    """
    item = _bounded(made)
    before = await tx.row(items.SQL["lock_item"], id=item.id)
    if before is not None and not await _differs(tx, before, item, kind):
        return False
    event = _event(tx, item.id, item.scope, kind, origin, before, _said(item))
    async with entry(tx, event) as record:
        if record.stored is not None:
            return False
        if before is None:
            await tx.gather(items.put_item(item, record))
        else:
            said = _said(item) | {"id": item.id, "tags": list(item.tags)}
            await tx.rows(items.SQL["revise_item"], **said, position=record.position, recorded_at=record.recorded_at)
        record.finish({"items": [item.id]})
    return True


async def withdraw(tx: Transaction, item: str, because: str) -> bool:
    """Retire an item whose source is gone; return whether it was there to be retired."""
    before = await tx.row(items.SQL["lock_item"], id=item)
    if before is None or before["state"] == "retired":
        return False
    payload = {"id": item, "because": because}
    kind = EventKind.KNOWLEDGE_WITHDRAWN
    event = _event(tx, item, before["scope"], kind, Origin.MAINTENANCE, before, payload)
    async with entry(tx, event) as record:
        if record.stored is not None:
            return False
        await tx.rows(items.SQL["retire_item"], id=item, position=record.position, recorded_at=record.recorded_at)
        record.finish({"items": [item]})
    return True


def _event(
    tx: Transaction,
    item: str,
    scope: str,
    kind: EventKind,
    origin: Origin,
    before: Row | None,
    payload: dict[str, Any],
) -> Event:
    # Under the item's lock a revision is made once, whoever makes it.
    key = f"item:{item}:{before['revision'] + 1 if before else 1}"
    provenance = Provenance(key=key, origin=origin)
    return Event(tenant=tx.tenant, scope=scope, kind=kind, provenance=provenance, payload=payload)


async def _differs(tx: Transaction, before: Row, item: NewItem, kind: EventKind) -> bool:
    if item.state == "quarantined" and before["state"] != "quarantined":
        return False
    said = _said(item)
    if before["state"] == "retired" and item.state == "active":
        changed = any(before[name] != said[name] for name in ("title", "text", "tags"))
        by_rule = await _retired_by_rule(tx, before["retired_position"])
        return by_rule or (changed and kind is EventKind.NOTE_READ)
    return any(before[name] != value for name, value in said.items())


async def _retired_by_rule(tx: Transaction, position: int | None) -> bool:
    row = await tx.row(SQL["origin_of"], position=position)
    return row is not None and row["origin"] in _RULES


def _said(item: NewItem) -> dict[str, Any]:
    return {
        "title": item.title,
        "text": item.text,
        "tags": list(item.tags),
        "state": item.state,
        "trust": item.trust,
        "origin": item.origin,
    }


def _bounded(item: NewItem) -> NewItem:
    return replace(
        item,
        title=shortened(item.title, LONGEST_TITLE),
        text=shortened(item.text, LONGEST_TEXT),
        tags=item.tags[:MOST_TAGS],
    )


def shortened(text: str, longest: int) -> str:
    """Give a text of at most so many characters, with an ellipsis where it was cut."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"
