"""Tier 1's observations: what was tried, as rows; every statistic is folded from them on read."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from memory.journal import Entry, Provenance, canonical_json, occurrence_of
from memory.journal.event import run_of
from memory.learning.outcomes import AppliedAction, Attempt
from memory.postgres import Row, Statement, Transaction, load_queries, statement
from memory.signatures import Signature
from poimen.contracts.memory_calls import AnalyzeError, LearnFromExecution
from poimen.contracts.vocabulary import OWN_FAILURES, AttemptOutcome

SQL = load_queries(__package__, "observations.sql")
LATEST: Final = 200
"""Failures that a lesson's evidence is made from; older ones weigh nothing any more."""
MOST_ATTEMPTS: Final = 6_000
"""Attempts that are read at once, for all lessons together."""
MOST_A_LESSON: Final = 1_000
MOST_AN_OCCURRENCE: Final = 100

# A step that runs longer than its own time-out failed by itself; a lost worker or a cancel says nothing about it.
OWN: Final = OWN_FAILURES | {"timeout"}


def observations(
    scope: str, lessons: Iterable[str], earlier: Iterable[str] = (), most: int = MOST_ATTEMPTS
) -> Statement:
    """Give the statement for the attempts of the latest occurrences that lessons are made from.

    `earlier` are the keys that earlier versions of the rules made of the same failure, where its text is at hand.

    Its rows are in the order of their records, each with the lesson's id as `lesson`; what was recorded before a
    lesson was retired does not count for it. The latest MOST_AN_OCCURRENCE attempts of an occurrence are told, and the
    latest MOST_A_LESSON of a lesson: fewer when many lessons share the `most` that are told in all.
    """
    asked = list(lessons)
    return statement(
        SQL["observations"],
        scope=scope,
        lessons=asked,
        earlier=list(earlier),
        limit=LATEST,
        most_an_occurrence=MOST_AN_OCCURRENCE,
        most_a_lesson=min(MOST_A_LESSON, most // max(len(asked), 1)),
    )


def occurrence_attempts(scope: str, step: str, occurrence: str, most: int = MOST_A_LESSON) -> Statement:
    """Give the statement for the latest attempts of one occurrence, in order.

    Its rows have `attempt`, `outcome`, `signature` and the failure's `title`.
    """
    return statement(SQL["occurrence"], scope=scope, step=step, occurrence=occurrence, limit=most)


def record_attempt(
    tx: Transaction,
    entry: Entry,
    call: AnalyzeError | LearnFromExecution,
    provenance: Provenance,
    outcome: AttemptOutcome,
    signature: Signature | None = None,
) -> None:
    """Record the attempt that a call reports; a second report of the same attempt changes nothing."""
    tx.defer(
        SQL["put_attempt"],
        scope=call.scope,
        step=call.step or "",
        occurrence=occurrence_of(call, provenance),
        attempt=call.attempt,
        run=run_of(call, provenance),
        branch=call.branch,
        visit=call.visit,
        outcome=outcome,
        source=call.source if isinstance(call, AnalyzeError) else None,
        signature=signature.key if signature else None,
        family=signature.family if signature else None,
        environment=fingerprint(call.environment),
        action=call.applied.kind,
        repair=call.applied.repair,
        repair_exit_code=call.applied.exit_code,
        waited_seconds=call.applied.waited_seconds,
        since_first_failure_seconds=call.applied.since_first_failure_seconds,
        package_id=call.package_id,
        position=entry.position,
        recorded_at=entry.recorded_at,
    )


def keep_environment(tx: Transaction, environment: Mapping[str, str]) -> None:
    """Keep what the environment's fingerprint stands for."""
    if environment:
        tx.defer(SQL["put_environment"], fingerprint=fingerprint(environment), parts=dict(environment))


async def run_name(tx: Transaction, run: str) -> str:
    """Give the name people know a run by: its workflow id, else the run itself."""
    return (await run_names(tx, [run]))[run]


async def run_names(tx: Transaction, runs: Iterable[str | None]) -> dict[str, str]:
    """Give the name people know each run by, in one round trip; None is passed over."""
    wanted = list(dict.fromkeys(run for run in runs if run is not None))
    found = await tx.gather(*(statement(SQL["run_name"], run=run) for run in wanted))
    return {run: _name_of(run, rows) for run, rows in zip(wanted, found, strict=True)}


def _name_of(run: str, rows: list[Row]) -> str:
    return workflow_of_run(rows[0]["workflow_id"], rows[0]["step"], rows[0]["visit"]) if rows else run


def workflow_of_run(workflow_id: str, step: str | None, visit: int | None) -> str:
    """Give the workflow id of a run from that of one of its steps: RUN/STEP, RUN/STEP/VISIT when visited again."""
    if step is None:
        return workflow_id
    return workflow_id.removesuffix(f"/{visit}").removesuffix(f"/{step}")


def fingerprint(environment: Mapping[str, str]) -> str:
    """Give the name of an environment; an empty one has the empty name."""
    if not environment:
        return ""
    return hashlib.sha256(canonical_json(dict(environment)).encode("utf-8", "replace")).hexdigest()[:32]


def attempts(rows: Iterable[Row]) -> list[Attempt]:
    """Give the rows as learning reads them."""
    return [
        Attempt(
            occurrence=row["occurrence"],
            # A caller who names no run is one by occurrence: two of its failures are not one run's.
            run=row["run"] or row["occurrence"],
            attempt=row["attempt"],
            outcome=row["outcome"],
            signature=row["signature"],
            applied=AppliedAction(
                kind=row["action"],
                repair=row["repair"],
                waited_seconds=row["waited_seconds"],
                since_first_failure_seconds=row["since_first_failure_seconds"],
            ),
            environment=row["environment"] or "",
            recorded_order=row["position"],
        )
        for row in rows
    ]
