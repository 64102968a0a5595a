"""The journal: the append-only record that everything else can be rebuilt from.

A use case writes like this, and derived rows commit with the event or not at all::

    async with tenant_transaction(pool, tenant, deadline_seconds=1.2) as tx:
        async with entry(tx, describe(kind, call, masked, tenant=tenant, provenance=provenance)) as record:
            if record.stored is not None:
                return answer_from(record.stored)
            ...  # derived rows, with record.position and record.recorded_at
            record.finish(result)
"""

from memory.journal.event import (
    Event,
    EventKind,
    Origin,
    Provenance,
    RecordedEvent,
    canonical_json,
    describe,
    occurrence_of,
    run_of,
)
from memory.journal.follow import Follower
from memory.journal.read import events_of_run, events_of_workflow, events_since
from memory.journal.record import Entry, Recorded, entry, record

__all__ = [
    "Entry",
    "Event",
    "EventKind",
    "Follower",
    "Origin",
    "Provenance",
    "Recorded",
    "RecordedEvent",
    "canonical_json",
    "describe",
    "entry",
    "events_of_run",
    "events_of_workflow",
    "events_since",
    "occurrence_of",
    "record",
    "run_of",
]
