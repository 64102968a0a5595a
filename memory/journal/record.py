"""Append to the journal, exactly once for each key."""

import contextlib
import hashlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory.errors import Conflict
from memory.journal.event import Event, short_name, storable
from memory.postgres import Row, Transaction, jsonb, load_queries, statement

SQL = load_queries(__package__, "journal.sql")
# Parts of a payload above this many UTF-8 bytes are stored beside the journal, where retention may drop them.
LONGEST_PART_BYTES = 4096
# Twice what Temporal takes by default, and still a b-tree entry with any tenant.
LONGEST_WORKFLOW_ID_BYTES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What is on record under a key: where it stands, and the answer that was given."""

    position: int
    id: str
    recorded_at: datetime
    result: dict[str, Any]
    # True when an earlier call recorded it and this one changed nothing.
    duplicate: bool


@dataclass(frozen=True, slots=True)
class _Place:
    position: int
    id: str
    recorded_at: datetime


class Entry:
    """One event while its transaction is open.

    `stored` is what an earlier call with the same key recorded; then nothing is left to do but to answer with it.
    """

    def __init__(self, tx: Transaction, event: Event, place: _Place, stored: Recorded | None) -> None:
        self._tx = tx
        self._event = event
        self.position = place.position
        self.id = place.id
        self.recorded_at = place.recorded_at
        self.stored = stored
        self.finished = stored

    def finish(self, result: Mapping[str, Any]) -> Recorded:
        """Append the event, with the commit, with the answer that any repetition of the call will get."""
        if self.finished is not None:
            raise RuntimeError("This entry is finished.")
        answer = storable(result)
        _append(self._tx, self._event, self, answer)
        self._tx.announce()
        self.finished = _recorded(self, answer, duplicate=False)
        return self.finished


@contextlib.asynccontextmanager
async def entry(tx: Transaction, event: Event) -> AsyncIterator[Entry]:
    """Open the event's place in the journal; the block looks at `stored`, else writes derived rows and finishes.

    Callers with the same key wait for each other here, and all but the first see `stored`.
    Raises Conflict when the key is on record with another request.
    """
    if event.tenant != tx.tenant:
        raise ValueError("The event belongs to another tenant than its transaction.")
    # Two statements: the second one's snapshot is younger than the first one's wait.
    (drawn,), found = await tx.gather(
        statement(SQL["reserve"], key=event.key), statement(SQL["find_event"], key=event.key)
    )
    place = _Place(drawn["position"], drawn["id"], drawn["recorded_at"])
    opened = _stored(tx, event, found[0]) if found else Entry(tx, event, place, None)
    yield opened
    if opened.finished is None:
        raise RuntimeError("An entry was left without a result.")


async def record(tx: Transaction, event: Event, result: Mapping[str, Any] | None = None) -> Recorded:
    """Append an event that has no derived rows, or return what is on record under its key."""
    async with entry(tx, event) as opened:
        return opened.stored or opened.finish(result or {})


def _stored(tx: Transaction, event: Event, row: Row) -> Entry:
    if row["request_hash"] != event.request_hash:
        raise Conflict("The same idempotency key was used before with another request.")
    place = _Place(row["position"], row["id"], row["recorded_at"])
    return Entry(tx, event, place, _recorded(place, row["result"], duplicate=True))


def _recorded(place: _Place | Entry, result: dict[str, Any], *, duplicate: bool) -> Recorded:
    return Recorded(
        position=place.position,
        id=place.id,
        recorded_at=place.recorded_at,
        result=result,
        duplicate=duplicate,
    )


def _append(tx: Transaction, event: Event, opened: Entry, result: dict[str, Any]) -> None:
    payload, parts, bodies = _split(storable(event.payload))
    for sha256, text in bodies.items():
        tx.defer(SQL["keep_body"], sha256=sha256, bytes=len(text.encode()), text=text)
    caller = event.provenance
    tx.defer(
        SQL["insert_event"],
        position=opened.position,
        id=opened.id,
        recorded_at=opened.recorded_at,
        scope=event.scope,
        kind=event.kind.value,
        key=event.key,
        request_hash=event.request_hash,
        occurred_at=caller.occurred_at,
        trace_id=caller.trace_id,
        workflow_id=caller.workflow_id and short_name(caller.workflow_id, LONGEST_WORKFLOW_ID_BYTES),
        run_id=caller.run_id,
        run=event.run,
        branch=event.branch,
        step=event.step,
        visit=event.visit,
        attempt=event.attempt,
        principal=caller.principal,
        origin=caller.origin.value,
        payload=jsonb(payload),
        body_parts=parts or None,
        result=jsonb(result),
    )


def _split(payload: Any) -> tuple[Any, dict[str, str], dict[str, str]]:
    """Return the payload without its long parts, pointer → hash, and hash → text."""
    parts: dict[str, str] = {}
    bodies: dict[str, str] = {}

    def short(value: Any, pointer: str) -> Any:
        if isinstance(value, str) and len(value.encode()) > LONGEST_PART_BYTES:
            sha256 = hashlib.sha256(value.encode()).hexdigest()
            parts[pointer], bodies[sha256] = sha256, value
            return None
        if isinstance(value, dict):
            return {name: short(item, f"{pointer}/{_escaped(name)}") for name, item in value.items()}
        if isinstance(value, list):
            return [short(item, f"{pointer}/{number}") for number, item in enumerate(value)]
        return value

    return short(payload, ""), parts, bodies


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
