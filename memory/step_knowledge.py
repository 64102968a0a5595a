"""What tier 1 knows of one step: its failures with their evidence, how it lately began, and what helped it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from memory import items
from memory.items import Known
from memory.journal import Provenance, occurrence_of
from memory.learning.outcomes import StepOutcome
from memory.learning.prevent import prevent, recent_signatures
from memory.observations import fingerprint, observations, occurrence_attempts
from memory.postgres import Row, Transaction, load_queries, statement
from poimen.contracts.memory_calls import EarlierAttempt, GetContext, Prevention

SQL = load_queries(__package__, "step_knowledge.sql")
MOST_LESSONS: Final = 12
MOST_DELIVERED: Final = 3
MOST_TOLD: Final = 2
# Enough to see six executions without prevention behind a hold-out every tenth.
LATEST_OUTCOMES: Final = 100
LATEST_RUNS: Final = 20
LATEST_ATTEMPTS: Final = 200
MOST_EARLIER: Final = 100
# What is folded before every attempt of every step costs little, however busy the step is.
MOST_OBSERVED: Final = 1_800


@dataclass(frozen=True, slots=True)
class StepKnowledge:
    """What is on record of a step, as far as it may be delivered; `helped` is item id → (worked, tried)."""

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


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What was read of a step: the rows of its lessons, their attempts, and what else `StepKnowledge` tells."""

    lessons: list[Row]
    attempts: list[Row]
    told: list[Row]
    outcomes: tuple[StepOutcome, ...]
    earlier: tuple[EarlierAttempt, ...]
    helped: Mapping[str, tuple[int, int]]


async def read_step(tx: Transaction, call: GetContext, provenance: Provenance) -> StepRecord:
    """Read what is on record of the step that a call names, in two round trips; commits."""
    step, scope = call.step or "", call.scope
    place = {"scope": scope, "step": step}
    here = {**place, "environment": fingerprint(call.environment)}
    occurrence = occurrence_of(call, provenance)
    outcomes, rows, told, helped, *attempts = await tx.gather(
        statement(SQL["latest_outcomes"], **here, limit=LATEST_OUTCOMES),
        statement(
            SQL["lessons"],
            **here,
            first=call.last_signature,
            outcomes=LATEST_OUTCOMES,
            attempts=LATEST_ATTEMPTS,
            limit=MOST_LESSONS,
        ),
        statement(items.SQL["told_lessons"], **place, limit=MOST_TOLD),
        statement(SQL["helped"], **place, limit=LATEST_RUNS),
        *([occurrence_attempts(scope, step, occurrence, MOST_EARLIER)] if call.attempt > 1 else []),
    )
    began = tuple(_outcome(row) for row in outcomes)
    lessons = _needed(call, rows, began)
    (found,) = await tx.gather(observations(scope, [row["id"] for row in lessons], most=MOST_OBSERVED), last=True)
    return StepRecord(
        lessons=lessons,
        attempts=found,
        told=told,
        outcomes=began,
        earlier=_earlier(call, attempts[0] if attempts else []),
        helped={row["id"]: (row["worked"], row["tried"]) for row in helped},
    )


def _needed(call: GetContext, lessons: list[Row], outcomes: tuple[StepOutcome, ...]) -> list[Row]:
    """Give the lessons that can be delivered, and those that may be worth preventing: the others are not folded."""
    prevented = recent_signatures(outcomes, fingerprint(call.environment)) if _may_prevent(call) else set()
    return [row for at, row in enumerate(lessons) if at < MOST_DELIVERED or row["root"] in prevented]


def _may_prevent(call: GetContext) -> bool:
    return call.attempt == 1 and bool(call.repairs)


async def step_knowledge(record: StepRecord, call: GetContext, provenance: Provenance) -> StepKnowledge:
    """Make of what was read what is known; much of it is folded aside of the event loop."""
    environment, occurrence = fingerprint(call.environment), occurrence_of(call, provenance)
    return StepKnowledge(
        lessons=tuple(await items.told_aside(record.lessons, record.attempts, environment, occurrence)),
        told=tuple(Known(row) for row in record.told),
        outcomes=record.outcomes,
        earlier=record.earlier,
        helped=record.helped,
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
    if not _may_prevent(call):
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
