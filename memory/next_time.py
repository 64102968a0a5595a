"""`poimen repair --dry-run`: what memory would do if a step failed again as it did. Records nothing."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from memory.analyze import rehearse
from memory.errors import NotFound
from memory.journal import EventKind, RecordedEvent
from memory.journal.read import DROPPED
from memory.limits import restored
from memory.observations import OWN, run_name
from memory.postgres import tenant_transaction
from memory.stores import Caller, Stores
from memory.why import events_named
from poimen.contracts.memory_calls import Analysis, AnalyzeError, AppliedAction


@dataclass(frozen=True, slots=True)
class NextTime:
    """The run and the step whose latest failure is taken to come again, and how memory would answer it then."""

    run: str
    step: str
    analysis: Analysis


async def next_time(stores: Stores, caller: Caller, run_or_workflow_id: str, step: str) -> NextTime:
    """Say what memory would do if the step's latest failure came again, as the first one of a new run.

    The step's own bounds (declared repairs, delays, attempts) and its environment are those it had then; the evidence
    is today's. Raises NotFound when the run, or a failure of the step, is not on record.
    """
    async with tenant_transaction(stores.pool, caller.tenant, deadline_seconds=caller.deadline_seconds) as tx:
        run, events = await events_named(tx, run_or_workflow_id)
        name = await run_name(tx, run)
    failures = [call for call in _failures(events, step) if call.source in OWN]
    if not failures and any(event.step == step for event in events):
        raise NotFound(f"{step} did not fail in {name}; name a run in which it did.")
    if not failures:
        raise NotFound(f"{name} has no step of that name on record.")
    if failures[-1].error == DROPPED:
        raise NotFound(f"The text of that failure is no longer kept; {name} is too long ago.")
    return NextTime(name, step, await rehearse(_again(failures), caller, stores))


def _failures(events: Iterable[RecordedEvent], step: str) -> list[AnalyzeError]:
    failed = (event for event in events if event.kind == EventKind.ERROR_ANALYZED and event.step == step)
    return [restored(AnalyzeError, event.payload) for event in failed]


def _again(failures: list[AnalyzeError]) -> AnalyzeError:
    """Give the latest failure as the first attempt of a run that is like no other."""
    latest = failures[-1]
    first = next(call for call in failures if call.visit == latest.visit)
    new = f"rehearsal-{uuid.uuid4().hex}"
    return latest.model_copy(
        update={
            "run": new,
            "branch": None,
            "visit": 1,
            "attempt": 1,
            "occurrence_id": new,
            "idempotency_key": None,
            "applied": AppliedAction(),
            "package_id": None,
            "attempts_left": first.attempts_left,
            "next_delay_seconds": first.next_delay_seconds,
        }
    )
