"""Read the journal back."""

from collections.abc import Sequence
from typing import Any

from memory.journal.event import LONGEST_PART_BYTES, EventKind, RecordedEvent, short_name
from memory.journal.record import SQL
from memory.postgres import Row, Transaction

_COLUMNS = frozenset(RecordedEvent.__dataclass_fields__) - {"kind", "id", "payload"}
_KINDS = frozenset(kind.value for kind in EventKind)
# Stands where retention has dropped a long part.
DROPPED = "[body dropped]"


async def events_of_run(tx: Transaction, run: str, *, limit: int = 10_000) -> list[RecordedEvent]:
    """Return what is on record of one run, in order. A long name of a run is looked up by its hash as well."""
    rows = await tx.rows(SQL["events_of_run"], run=run, limit=limit)
    stored = short_name(run, LONGEST_PART_BYTES)
    if not rows and stored != run:
        rows = await tx.rows(SQL["events_of_run"], run=stored, limit=limit)
    return await _restored(tx, rows)


async def events_of_workflow(tx: Transaction, workflow_id: str, *, limit: int = 10_000) -> list[RecordedEvent]:
    """Return what one workflow id recorded, over all its executions, in order."""
    return await _restored(tx, await tx.rows(SQL["events_of_workflow"], workflow_id=workflow_id, limit=limit))


async def events_since(tx: Transaction, position: int, *, limit: int = 500) -> list[RecordedEvent]:
    """Return the next events after a position.

    Right for a full replay of a quiet journal only: positions become visible out of order, so a reader that keeps up
    with writers is a `Follower`.
    """
    return await _restored(tx, await tx.rows(SQL["events_since"], position=position, limit=limit))


async def events_at(tx: Transaction, positions: Sequence[int], *, bodies: bool = True) -> list[RecordedEvent]:
    """Return the events at some positions, in order of position; without `bodies` long parts of payloads are None."""
    rows = await tx.rows(SQL["events_at"], positions=list(positions))
    return await _restored(tx, rows) if bodies else [_event({**row, "body_parts": None}, {}) for row in rows]


async def _restored(tx: Transaction, rows: list[Row]) -> list[RecordedEvent]:
    hashes = sorted({sha256 for row in rows for sha256 in (row["body_parts"] or {}).values()})
    found = await tx.rows(SQL["read_bodies"], hashes=hashes) if hashes else []
    bodies = {row["sha256"]: row["text"] for row in found}
    return [_event(row, bodies) for row in rows]


def _event(row: Row, bodies: dict[str, str]) -> RecordedEvent:
    payload: Any = row["payload"]
    for pointer, sha256 in (row["body_parts"] or {}).items():
        _put(payload, pointer, bodies.get(sha256, DROPPED))
    columns = {name: row[name] for name in _COLUMNS}
    return RecordedEvent(kind=_kind(row["kind"]), id=str(row["id"]), payload=payload, **columns)


def _kind(text: str) -> EventKind | str:
    # A newer worker may already write kinds that this one does not know; whoever does not care passes them over.
    return EventKind(text) if text in _KINDS else text


def _put(payload: Any, pointer: str, text: str) -> None:
    *path, last = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    place = payload
    for part in path:
        place = place[int(part) if isinstance(place, list) else part]
    place[int(last) if isinstance(place, list) else last] = text
