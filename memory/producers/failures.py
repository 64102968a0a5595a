"""Failure patterns: what fails again and again in a step, and what ended it in distinct runs."""

from typing import Final

from memory import items
from memory.ids import item_id
from memory.items import Known, NewItem, lesson_id
from memory.journal import EventKind, Origin, Provenance, RecordedEvent, occurrence_of
from memory.learning.evidence import Evidence
from memory.lessons import evidence_text
from memory.limits import restored
from memory.observations import fingerprint, occurrence_attempts
from memory.postgres import Row, Transaction, load_queries
from memory.producers.keep import keep_item, shortened, withdraw
from poimen.contracts.memory_calls import LearnFromExecution

SQL = load_queries(__package__, "failures.sql")
LEAST_RUNS: Final = 2
LONGEST_SAMPLE: Final = 600


async def keep_failure_patterns(tx: Transaction, event: RecordedEvent) -> None:
    """Bring the patterns of what a success ended to what their lessons' evidence says now."""
    call = restored(LearnFromExecution, {name: value for name, value in event.payload.items() if value is not None})
    if call.outcome != "succeeded" or call.attempt == 1 or not call.step:
        return
    provenance = Provenance(key=event.key, origin=Origin(event.origin), run_id=event.run_id)
    (tried,) = await tx.gather(occurrence_attempts(call.scope, call.step, occurrence_of(call, provenance)))
    failed = dict.fromkeys(row["signature"] for row in tried if row["signature"] is not None)
    ids = [lesson_id(call.scope, call.step, signature) for signature in failed]
    for known in await items.active_items(tx, call.scope, ids, fingerprint(call.environment)):
        if known.evidence is not None and len(_ended_in(known.evidence)) >= LEAST_RUNS:
            await keep_item(tx, _pattern(known, known.evidence), EventKind.PATTERN_FOUND, Origin.MAINTENANCE)


async def withdraw_failure_patterns(tx: Transaction, event: RecordedEvent) -> None:
    """Take out the patterns of lessons that were retired."""
    for lesson in await tx.rows(SQL["retired_lessons"], ids=event.result.get("items", [])):
        await withdraw(tx, pattern_id(lesson), "the lesson it was made from was retired")


def pattern_id(lesson: Row) -> str:
    """Give the id of the pattern that a lesson makes."""
    return item_id("pattern", "failure", lesson["scope"], lesson["step"] or "", lesson["signature"])


def _ended_in(evidence: Evidence) -> set[str]:
    return {trial.run for trial in evidence.trials if trial.worked}


def _pattern(known: Known, evidence: Evidence) -> NewItem:
    row = known.row
    said = evidence_text(row["step"] or "", row["title"], evidence)
    return NewItem(
        id=pattern_id(row),
        scope=row["scope"],
        kind="pattern",
        title=f"{row['title']} in {row['step']}",
        text=f"{said}\n{shortened(row['text'], LONGEST_SAMPLE)}",
        origin=Origin.MAINTENANCE.value,
        trust="observed",
        step=row["step"],
        tags=("failure",),
    )
