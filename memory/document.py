"""DocumentDecision: put a decision on record; the end of a step execution also counts for prevention."""

from memory.journal import Entry, EventKind, occurrence_of
from memory.journal.event import LONGEST_PART_BYTES, run_of, short_name
from memory.observations import OWN, fingerprint, keep_environment, occurrence_attempts
from memory.once import once
from memory.postgres import Transaction, load_queries
from memory.scrub import scrub, scrub_warning
from memory.stores import Caller, Stores
from poimen.contracts.memory_calls import AttemptRecord, DocumentDecision, Documented
from poimen.contracts.message import encode

SQL = load_queries(__package__, "document.sql")
STEP_COMPLETION = "step_completion"


async def document(call: DocumentDecision, caller: Caller, stores: Stores) -> Documented:
    """Record a decision exactly once.

    Asked again under the same key it gives the same answer, marked as a duplicate. Raises Conflict when the key was
    used for another request, StoreUnavailable when the record cannot be written in time.
    """
    masked, found = await scrub(call, stores.masker)
    async with once(EventKind.DECISION_DOCUMENTED, masked, Documented, caller, stores) as (tx, record, stored):
        if stored is not None:
            return stored
        if masked.kind == STEP_COMPLETION:
            await _keep_outcome(tx, record, masked, caller)
        documented = Documented(decision_id=f"dec-{record.id}", warnings=scrub_warning(found))
        record.finish({"answer": encode(documented), "items": []})
    return documented


async def _keep_outcome(tx: Transaction, record: Entry, call: DocumentDecision, caller: Caller) -> None:
    """Keep how the execution began: the rate of incidents is counted from these, healthy ones included."""
    began = next((attempt for attempt in call.attempts if _own(attempt)), None)
    if began is None or call.step is None or call.end is None:
        return
    occurrence = occurrence_of(call, caller.provenance)
    keep_environment(tx, call.environment)
    prevented = call.prevention
    first = await _first_signature(tx, call, began, occurrence)
    tx.defer(
        SQL["put_outcome"],
        scope=call.scope,
        step=call.step,
        run=run_of(call, caller.provenance) or short_name(occurrence, LONGEST_PART_BYTES),
        branch=short_name(call.branch or "", LONGEST_PART_BYTES),
        visit=call.visit,
        environment=fingerprint(call.environment),
        prevented_by=prevented.repair if prevented else None,
        prevented_signature=prevented.signature if prevented else None,
        first_signature=first,
        ended=call.end,
        position=record.position,
        recorded_at=record.recorded_at,
    )


def _own(attempt: AttemptRecord) -> bool:
    # A lost worker before the step's first own end says nothing about how the step begins.
    return attempt.outcome == "succeeded" or attempt.source is None or attempt.source in OWN


async def _first_signature(
    tx: Transaction, call: DocumentDecision, began: AttemptRecord, occurrence: str
) -> str | None:
    if began.outcome == "succeeded":
        return None
    # A failure that memory lost is analysed later: then the record has no signature, and the row has.
    if began.signature:
        return began.signature
    (rows,) = await tx.gather(occurrence_attempts(call.scope, call.step or "", occurrence))
    return next((row["signature"] for row in rows if row["attempt"] == began.attempt), None)
