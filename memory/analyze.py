"""AnalyzeError: recognise a failure, put it on record, and say what ended it before."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from memory import items
from memory.aside import aside
from memory.items import Known, NewItem
from memory.journal import Entry, EventKind, occurrence_of
from memory.journal.event import run_of
from memory.learning.advice import Admissible, Advice, FailureName, advise
from memory.learning.evidence import Evidence, fold
from memory.learning.outcomes import ActionKind
from memory.learning.pairing import tried_in
from memory.observations import (
    OWN,
    attempts,
    fingerprint,
    keep_environment,
    observations,
    record_attempt,
    run_names,
)
from memory.once import once
from memory.postgres import Row, Transaction, load_queries, statement
from memory.scrub import scrub, scrub_warning
from memory.signatures import Signature, signatures_of
from memory.stores import Caller, Stores
from poimen.contracts.memory_calls import (
    Analysis,
    AnalyzeError,
    RecoveryStep,
    RememberedItem,
    RetryAdvice,
    SeenBefore,
    TierReport,
)
from poimen.contracts.message import encode
from poimen.contracts.vocabulary import FailureSource

SQL = load_queries(__package__, "analyze.sql")
MOST_TOLD_LESSONS: Final = 2
# What a caller who names no policy is taken to allow.
DEFAULT_DELAY_SECONDS: Final = 1.0
DEFAULT_LONGEST_SECONDS: Final = 60.0
UNBOUNDED_ATTEMPTS: Final = 1_000
_ACTIONS: Final[dict[str, ActionKind]] = {"repair": "repair", "retry_after": "wait", "retry": "none"}
_NOT_OWN: Final[dict[FailureSource, str]] = {
    "cancelled": "the attempt was cancelled",
    "worker_lost": "the worker was lost",
    "budget": "the budget ended the attempt",
    "executor": "the executor could not run the attempt",
}


@dataclass(frozen=True, slots=True)
class _Failure:
    """One failed attempt of a step: the masked call, its signature, its earlier keys, and where it belongs."""

    call: AnalyzeError
    signature: Signature
    earlier: tuple[str, ...]
    occurrence: str
    run: str | None

    @property
    def step(self) -> str:
        return self.call.step or ""

    @property
    def lesson(self) -> str:
        return items.lesson_id(self.call.scope, self.step, self.signature.key)


class _Rehearsed(Exception):
    """No error: it undoes the transaction that it leaves, and takes the answer out of it."""

    def __init__(self, analysis: Analysis) -> None:
        super().__init__()
        self.analysis = analysis


async def rehearse(call: AnalyzeError, caller: Caller, stores: Stores) -> Analysis:
    """Answer as `analyze` would, in a transaction that is undone: nothing is on record of it."""
    try:
        return await analyze(call, caller, stores, keep=False)
    except _Rehearsed as done:
        return done.analysis


async def analyze(call: AnalyzeError, caller: Caller, stores: Stores, *, keep: bool = True) -> Analysis:
    """Record a failed attempt and answer with its signature, what is known of it, and advice.

    Asked again under the same key it gives the same answer, marked as a duplicate. Raises Conflict when the key was
    used for another request, StoreUnavailable when the record cannot be written in time.
    """
    began = time.monotonic()
    masked, found = await scrub(call, stores.masker)
    # Signed first: nobody who waits for a connection or for the key waits for this as well.
    failure = await _failure(masked, caller)
    async with once(EventKind.ERROR_ANALYZED, masked, Analysis, caller, stores) as (tx, record, stored):
        if stored is not None:
            return stored
        record_attempt(tx, record, masked, caller.provenance, "failed", failure.signature if failure else None)
        analysis, changed = await _analysis(tx, record, failure) if failure else (_not_own(masked, record.id), [])
        told = {
            "tiers": (_report(analysis, began),),
            "tenant": caller.tenant,
            "warnings": scrub_warning(found),
        }
        analysis = analysis.model_copy(update=told)
        if not keep:
            raise _Rehearsed(analysis)
        record.finish({"answer": encode(analysis), "items": changed})
    return analysis


async def _failure(call: AnalyzeError, caller: Caller) -> _Failure | None:
    """Give the step's own failure; None for one of the harness."""
    if call.source not in OWN:
        return None
    signature, *before = await aside(len(call.error), _signatures, call)
    earlier = tuple(one.key for one in before)
    return _Failure(call, signature, earlier, occurrence_of(call, caller.provenance), run_of(call, caller.provenance))


async def _analysis(tx: Transaction, record: Entry, failure: _Failure) -> tuple[Analysis, list[str]]:
    """Give the analysis, and the ids of the items that this failure made or brought back."""
    call = failure.call
    keep_environment(tx, call.environment)
    _keep_signature(tx, record, failure)
    made, revived, (lesson,), rows, told = await tx.gather(
        items.put_item(_lesson(failure), record),
        statement(
            items.SQL["revive_item"], id=failure.lesson, position=record.position, recorded_at=record.recorded_at
        ),
        statement(items.SQL["item"], id=failure.lesson),
        observations(call.scope, [failure.lesson], failure.earlier),
        statement(items.SQL["told_lessons"], scope=call.scope, step=failure.step, limit=MOST_TOLD_LESSONS),
    )
    changed = [failure.lesson] if made or revived else []
    return await _answer(tx, record, failure, lesson, rows, told), changed


def _signatures(call: AnalyzeError) -> tuple[Signature, ...]:
    """Give the signature by the current rules, then by earlier ones."""
    if call.source != "timeout":
        return signatures_of(call.error)
    # What a step printed before it was cut off says little about why it hung, and changes from run to run.
    line = "TimeoutError: the step ran longer than its time-out"
    return tuple(
        replace(one, kind="timeout", title="time-out", sample=line, retry_after_seconds=None)
        for one in signatures_of(line)
    )


def _keep_signature(tx: Transaction, record: Entry, failure: _Failure) -> None:
    signature = failure.signature
    tx.defer(
        SQL["put_signature"],
        scope=failure.call.scope,
        signature=signature.key,
        kind=signature.kind,
        family=signature.family,
        title=signature.title,
        template=signature.template,
        sample=signature.sample,
        weak=signature.weak,
        position=record.position,
        run=failure.run,
        recorded_at=record.recorded_at,
    )


def _lesson(failure: _Failure) -> NewItem:
    signature = failure.signature
    return NewItem(
        id=failure.lesson,
        scope=failure.call.scope,
        kind="lesson",
        title=_title(signature),
        # Searched, not shown: what is shown is told from the evidence, on read.
        text=f"{_title(signature)}. {signature.template} {signature.sample}".strip(),
        origin="harness_outcome",
        trust="observed",
        step=failure.step,
        signature=signature.key,
    )


def _title(signature: Signature) -> str:
    return signature.title or "a failure without words"


async def _answer(
    tx: Transaction, record: Entry, failure: _Failure, lesson: Row, rows: list[Row], told: list[Row]
) -> Analysis:
    call, signature = failure.call, failure.signature
    environment = fingerprint(call.environment)
    records = attempts(rows)
    evidence = fold(records, signature.key, environment, failure.occurrence)
    tried = tried_in(records, failure.occurrence, signature.key)
    earlier = [row for row in rows if row["occurrence"] != failure.occurrence]
    names = await run_names(tx, (evidence.first_run, evidence.last_helped_run)) if earlier else {}
    advice = advise(evidence, _admissible(call, signature), tried, _name(failure, evidence, names))
    return Analysis(
        signature=signature.key,
        family=signature.family,
        kind=signature.kind,
        title=_title(signature),
        failing_line=signature.sample,
        seen_before=_seen_before(earlier, signature.key, names.get(evidence.first_run or "")),
        lessons=_lessons(failure, lesson, earlier, told),
        recovery_steps=_recovery_steps(advice),
        advice=_retry_advice(advice, call),
        event_id=record.id,
    )


def _name(failure: _Failure, evidence: Evidence, names: Mapping[str, str]) -> FailureName:
    """Give what people call the failure, and the runs that its sentence may point to: any but the one at hand."""
    earlier = {run: name for run, name in names.items() if run != (failure.run or failure.occurrence)}
    first, helped = evidence.first_run or "", evidence.last_helped_run or ""
    return FailureName(_title(failure.signature), earlier.get(first), earlier.get(helped))


def _admissible(call: AnalyzeError, signature: Signature) -> Admissible:
    longest = call.longest_delay_seconds
    asked = call.service_wait_seconds
    return Admissible(
        repairs=call.repairs,
        next_delay_seconds=DEFAULT_DELAY_SECONDS if call.next_delay_seconds is None else call.next_delay_seconds,
        longest_delay_seconds=DEFAULT_LONGEST_SECONDS if longest is None else longest,
        attempts_left=UNBOUNDED_ATTEMPTS if call.attempts_left is None else call.attempts_left,
        service_wait_seconds=signature.retry_after_seconds if asked is None else asked,
        weak=signature.weak,
    )


def _seen_before(earlier: list[Row], signature: str, first_run: str | None) -> SeenBefore | None:
    """Count what was seen of the failure before the occurrence at hand; None when it is new."""
    failed = [row for row in earlier if row["signature"] == signature]
    if not failed:
        return None
    return SeenBefore(
        occurrences=len({row["occurrence"] for row in failed}),
        runs=len({row["run"] or row["occurrence"] for row in failed}),
        first_run=first_run,
        first_at=min(row["recorded_at"] for row in failed),
        last_at=max(row["recorded_at"] for row in failed),
    )


def _lessons(failure: _Failure, lesson: Row, earlier: list[Row], told: list[Row]) -> tuple[RememberedItem, ...]:
    lessons: list[RememberedItem] = []
    if earlier:
        environment = fingerprint(failure.call.environment)
        evidence = fold(attempts(earlier), failure.signature.key, environment)
        seen_at = max(row["recorded_at"] for row in earlier)
        lessons.append(items.remembered(Known(lesson, evidence, seen_at), "signatures", "same failure, same step"))
    if failure.step:
        lessons += [items.remembered(Known(row), "signatures", "told by this step") for row in told]
    return tuple(lessons)


def _recovery_steps(advice: Advice) -> tuple[RecoveryStep, ...]:
    return tuple(
        RecoveryStep(
            action=_ACTIONS[step.action],
            repair=step.repair,
            delay_seconds=step.delay_seconds,
            level=step.level,
            confidence=step.confidence,
            worked=step.worked,
            tried=step.tried,
            retry=step.retry,
        )
        for step in advice.recovery_steps
    )


def _retry_advice(advice: Advice, call: AnalyzeError) -> RetryAdvice:
    return RetryAdvice(
        verdict=advice.verdict,
        repair=advice.repair,
        delay_seconds=advice.delay_seconds,
        attempts_left=call.attempts_left,
        confidence=advice.confidence,
        because=advice.because,
    )


def _not_own(call: AnalyzeError, event_id: str) -> Analysis:
    """Answer a failure of the harness: it says nothing about the step, so it has no signature and teaches nothing."""
    title = _NOT_OWN.get(call.source, f"the harness reported {call.source}")
    because = f"{title}; that says nothing about {call.step or 'the step'}"
    return Analysis(
        signature="",
        family="",
        kind=call.source,
        title=title,
        failing_line="",
        advice=RetryAdvice(
            verdict="retry",
            delay_seconds=call.next_delay_seconds or 0.0,
            attempts_left=call.attempts_left,
            confidence=0.0,
            because=because,
        ),
        event_id=event_id,
    )


def _report(analysis: Analysis, began: float) -> TierReport:
    milliseconds = round((time.monotonic() - began) * 1000)
    return TierReport(tier="signatures", status="answered", found=len(analysis.lessons), elapsed_ms=milliseconds)
