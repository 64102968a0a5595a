"""`poimen why`: tell in plain words what memory knew of a run's steps, what it advised, and what came of it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from memory.errors import NotFound
from memory.ids import shown
from memory.journal import EventKind, RecordedEvent, events_of_run
from memory.limits import restored
from memory.observations import run_name
from memory.postgres import Row, Transaction, load_queries, tenant_transaction
from memory.stores import Stores
from memory.telling import AttemptTold, StepTold, tell_step
from poimen.contracts.memory_calls import (
    Analysis,
    AnalyzeError,
    AppliedAction,
    AttemptRecord,
    DocumentDecision,
    LearnFromExecution,
    RetryAdvice,
)

SQL = load_queries(__package__, "why.sql")
DEADLINE_SECONDS = 5.0
GATE = "gate"
RUN_FINAL = "run_final"
# What stands in a title for what differs each time; a person wants to read what it was this time.
_MASK = re.compile("<[a-z]+>")
_LONGEST_TITLE = 160
UNKNOWN_RUN = (
    "No run of that name is on record: give a workflow id or a run id of this tenant. "
    "A run with memory off leaves no record."
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """What memory did in a run: its name, its id, and each step execution in the order that memory heard of them."""

    name: str
    run: str
    steps: tuple[StepTold, ...]
    # The runs that the same workflow id had before, the latest first; of a run named by its run id they are not told.
    earlier: tuple[str, ...] = ()
    # Its gates that failed, and its end; not told of one step alone.
    decisions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Give it for a person to read."""
        if len(self.steps) == 1:
            lines = tell_step(self.steps[0])
        else:
            told = ((f"{step.label}", *(f"  {line}" for line in tell_step(step))) for step in self.steps)
            lines = [line for lines in told for line in lines]
        lines += self.decisions
        if self.earlier:
            before = f"{'runs' if len(self.earlier) > 1 else 'run'} {', '.join(self.earlier)}"
            latest = f"This is the run of {self.name} that memory came to know last"
            lines.append(f"{latest}; before it the id had {before}.")
        return "\n".join(lines)


class _Execution(NamedTuple):
    """One step execution of a run: a reset begins a branch, in which visits are counted anew."""

    step: str
    visit: int
    branch: str | None


@dataclass(slots=True)
class _Facts:
    """What is on record of one step execution."""

    decision: DocumentDecision | None = None
    failed: dict[int, tuple[AnalyzeError, Analysis]] = field(default_factory=dict)
    ended: dict[int, LearnFromExecution] = field(default_factory=dict)
    prevention: tuple[str, str, bool] | None = None
    receipts: list[Row] = field(default_factory=list)


async def explain(stores: Stores, tenant: str, run_or_workflow_id: str, step: str | None = None) -> Explanation:
    """Tell what memory did in a run, named by its run id or its workflow id (then its latest run).

    Raises NotFound when nothing is on record of the run or of the step.
    """
    async with tenant_transaction(stores.pool, tenant, deadline_seconds=DEADLINE_SECONDS) as tx:
        run, events = await events_named(tx, run_or_workflow_id)
        facts = _facts(events, await tx.rows(SQL["deliveries"], run=run))
        name = await run_name(tx, run)
        earlier = [] if run == run_or_workflow_id else await tx.rows(SQL["runs_of_workflow"], workflow_id=name)
    steps = tuple(_told(execution, known) for execution, known in facts.items() if step in {None, execution.step})
    if not steps and step is not None:
        raise NotFound(f"{name} has no step of that name on record.")
    before = tuple(row["run"] for row in earlier if row["run"] != run)
    return Explanation(name, run, steps, before, () if step is not None else _decisions(events))


async def events_named(tx: Transaction, name: str) -> tuple[str, list[RecordedEvent]]:
    """Return the id of the run that a run id or a workflow id names, and its events. Raises NotFound."""
    events = await events_of_run(tx, name)
    if events:
        return events[0].run or name, events
    row = next(iter(await tx.rows(SQL["runs_of_workflow"], workflow_id=name)), None)
    row = row or await tx.row(SQL["run_of_steps"], beginning=f"{name}/")
    if row is None:
        raise NotFound(UNKNOWN_RUN)
    return row["run"], await events_of_run(tx, row["run"])


def _decisions(events: Iterable[RecordedEvent]) -> tuple[str, ...]:
    """Say which gates failed and how the run ended; after a reset it may have ended more than once."""
    made = [
        (event.branch, restored(DocumentDecision, event.payload))
        for event in events
        if event.kind == EventKind.DECISION_DOCUMENTED and event.payload.get("kind") in {GATE, RUN_FINAL}
    ]
    return tuple(
        f"{'run ' if call.kind == RUN_FINAL else ''}{call.decision}{f' (branch {branch})' if branch else ''}"
        for branch, call in made
        if call.kind == RUN_FINAL or not call.decision.endswith(" passed")
    )


def _facts(events: Iterable[RecordedEvent], receipts: Iterable[Row]) -> dict[_Execution, _Facts]:
    facts: dict[_Execution, _Facts] = {}
    began: dict[_Execution, datetime] = {}
    for event in events:
        if event.step is not None:
            execution = _Execution(event.step, event.visit or 1, event.branch)
            _add(facts.setdefault(execution, _Facts()), event)
            began[execution] = min(began.get(execution, event.recorded_at), event.recorded_at)
    for row in receipts:
        execution = _Execution(row["step"], row["visit"] or 1, row["branch"])
        facts.setdefault(execution, _Facts()).receipts.append(row)
        # What was delivered before an attempt is the first that is heard of a step that then passes.
        began[execution] = min(began.get(execution, row["recorded_at"]), row["recorded_at"])
    return {execution: facts[execution] for execution in sorted(facts, key=lambda one: began[one])}


def _add(known: _Facts, event: RecordedEvent) -> None:
    attempt = event.attempt or 1
    if event.kind == EventKind.ERROR_ANALYZED:
        call = restored(AnalyzeError, event.payload)
        known.failed.setdefault(attempt, (call, restored(Analysis, event.result["answer"])))
    elif event.kind == EventKind.EXECUTION_LEARNED:
        known.ended.setdefault(attempt, restored(LearnFromExecution, event.payload))
    elif event.kind == EventKind.CONTEXT_DELIVERED:
        prevention = event.payload["prevention"]
        known.prevention = (prevention["repair"], prevention["because"], event.payload["held_out"])
    elif event.kind == EventKind.DECISION_DOCUMENTED and event.payload.get("kind") == "step_completion":
        known.decision = restored(DocumentDecision, event.payload)


def _told(execution: _Execution, known: _Facts) -> StepTold:
    decision = known.decision
    documented = {record.attempt: record for record in decision.attempts} if decision else {}
    numbers = sorted({*documented, *known.failed, *known.ended})
    delivered = {item: None for row in known.receipts for item in row["item_ids"]}
    return StepTold(
        step=execution.step,
        visit=execution.visit,
        branch=execution.branch,
        end=decision.end if decision else None,
        reason=decision.reasoning if decision else "",
        observed=bool(decision and decision.memory == "observe"),
        prevention=_prevention(known),
        held_out=known.prevention is not None and known.prevention[2],
        attempts=tuple(_attempt(number, documented.get(number), known) for number in numbers),
        delivered=tuple(shown(item) for item in delivered),
        empty_reasons=tuple(dict.fromkeys(row["empty_reason"] for row in known.receipts if row["empty_reason"])),
        silent_tiers=_silent(known.receipts),
    )


def _prevention(known: _Facts) -> tuple[str, str] | None:
    if known.prevention is not None:
        return known.prevention[:2]
    used = known.decision.prevention if known.decision else None
    return (used.repair, used.because) if used else None


def _silent(receipts: Iterable[Row]) -> tuple[str, ...]:
    reports = (report for row in receipts for report in row["tiers"])
    silent = (f"{r['tier']} {r['status']}" for r in reports if r["status"] in {"late", "down"})
    return tuple(dict.fromkeys(silent))


def _attempt(number: int, record: AttemptRecord | None, known: _Facts) -> AttemptTold:
    """Put an attempt together from its own report and from the step's; either may be missing."""
    call, analysis = known.failed.get(number, (None, None))
    ended = known.ended.get(number)
    reported = call or ended
    applied: AppliedAction = record.applied if record else reported.applied if reported else AppliedAction()
    advice: RetryAdvice | None = analysis.advice if analysis else record.advice if record else None
    failed = record.outcome == "failed" if record else call is not None
    return AttemptTold(
        number=number,
        failed=failed,
        source=call.source if call else record.source if record else None,
        signature=(analysis.signature if analysis else record.signature if record else None) or None,
        title=_title(analysis) if analysis else record.title if record else None,
        seen_runs=analysis.seen_before.runs if analysis and analysis.seen_before else 0,
        applied=applied,
        advice=advice,
        next_move=record.next_move if record else "",
        warnings=record.warnings if record else (),
    )


def _title(analysis: Analysis) -> str:
    """Name a failure by its own words where its title is made of them and leaves the numbers out."""
    said = " ".join(analysis.failing_line.split())
    if not said or not _MASK.search(analysis.title):
        return analysis.title
    return said if len(said) <= _LONGEST_TITLE else said[: _LONGEST_TITLE - 1].rstrip() + "…"
