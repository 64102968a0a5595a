"""What tier 1 knows of one step: its failures with their evidence, how it lately began, and what helped it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from memory import items
from memory.items import Known
from memory.journal import Provenance, occurrence_of
from memory.learning.outcomes import StepOutcome
from memory.learning.prevent import prevent
from memory.observations import fingerprint, occurrence_attempts
from memory.postgres import Row, Transaction, load_queries, statement
from poimen.contracts.memory_calls import EarlierAttempt, GetContext, Prevention

SQL = load_queries(__package__, "step_knowledge.sql")
MOST_LESSONS: Final = 12
MOST_TOLD: Final = 2
# Enough to see six executions without prevention behind a hold-out every tenth.
LATEST_OUTCOMES: Final = 100
LATEST_RUNS: Final = 20
LATEST_ATTEMPTS: Final = 200


@dataclass(frozen=True, slots=True)
class StepKnowledge:
    """What is on record of a step; `helped` is item id → (worked, tried)."""

    lessons: tuple[Known, ...]
    told: tuple[Known, ...]
    outcomes: tuple[StepOutcome, ...]
    earlier: tuple[EarlierAttempt, ...]
    helped: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Prevented:
    """A prevention that was decided, or one that is left out this once to see whether it is needed."""

    prevention: Prevention
    held_out: bool


async def step_knowledge(tx: Transaction, call: GetContext, provenance: Provenance) -> StepKnowledge:
    """Read what is on record of the step that a call names, in two round trips; commits."""
    step, scope = call.step or "", call.scope
    occurrence = occurrence_of(call, provenance)
    place = {"scope": scope, "step": step}
    outcomes, rows, told, helped, *attempts = await tx.gather(
        statement(SQL["latest_outcomes"], **place, limit=LATEST_OUTCOMES),
        statement(
            SQL["lessons"],
            **place,
            first=call.last_signature,
            outcomes=LATEST_OUTCOMES,
            attempts=LATEST_ATTEMPTS,
            limit=MOST_LESSONS,
        ),
        statement(items.SQL["told_lessons"], **place, limit=MOST_TOLD),
        statement(SQL["helped"], **place, limit=LATEST_RUNS),
        *([occurrence_attempts(scope, step, occurrence)] if call.attempt > 1 else []),
    )
    return StepKnowledge(
        lessons=tuple(await items.with_evidence(tx, scope, rows, fingerprint(call.environment), occurrence)),
        told=tuple(Known(row) for row in told),
        outcomes=tuple(_outcome(row) for row in outcomes),
        earlier=_earlier(call, attempts[0] if attempts else []),
        helped={row["id"]: (row["worked"], row["tried"]) for row in helped},
    )


def _earlier(call: GetContext, rows: list[Row]) -> tuple[EarlierAttempt, ...]:
    if call.earlier_attempts:
        return call.earlier_attempts
    return tuple(
        EarlierAttempt(
            attempt=row["attempt"],
            outcome=row["outcome"],
            signature=row["signature"],
            title=row["title"],
        )
        for row in rows
        if row["attempt"] < call.attempt
    )


def _outcome(row: Row) -> StepOutcome:
    return StepOutcome(
        run=row["run"],
        branch=row["branch"],
        visit=row["visit"],
        environment=row["environment"] or "",
        prevented_by=row["prevented_by"],
        prevented_signature=row["prevented_signature"],
        first_signature=row["first_signature"],
        succeeded=row["ended"] == "succeeded",
        recorded_order=row["position"],
    )


def prevention(call: GetContext, known: StepKnowledge) -> Prevented | None:
    """Give the repair to run before attempt 1, if the step lately began with what it is known to end."""
    if call.attempt != 1 or not call.repairs:
        return None
    evidence = {one.row["root"]: one.evidence for one in known.lessons if one.evidence is not None}
    titles = {one.row["root"]: one.row["title"] for one in known.lessons}
    found = prevent(known.outcomes, evidence, call.repairs, fingerprint(call.environment), titles)
    if found is None:
        return None
    return Prevented(
        Prevention(
            repair=found.repair,
            because=found.because,
            signature=found.signature,
            confidence=found.confidence,
        ),
        found.held_out,
    )


async def failure_words(tx: Transaction, scope: str, signature: str | None) -> str:
    """Give the words of a failure that was seen in this scope, "" for one that was not."""
    if not signature:
        return ""
    (rows,) = await tx.gather(statement(SQL["signature_words"], scope=scope, signature=signature), last=True)
    return " ".join(f"{row['title']} {row['template']} {row['sample']}" for row in rows)
