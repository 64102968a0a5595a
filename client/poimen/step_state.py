"""Where a step execution stands: what was asked, what each attempt came to, what is left. No effects."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from poimen.contracts.execution import OutputReference, RenderedContext, StepReport
from poimen.contracts.memory_calls import (
    Analysis,
    AppliedAction,
    AttemptRecord,
    BudgetLeft,
    ContextPackage,
    EarlierAttempt,
    Fingerprint,
    Prevention,
    RetryAdvice,
)
from poimen.contracts.vocabulary import AttemptOutcome, FailureSource, MemoryMode, StepEnd
from poimen.excerpts import both_ends
from poimen.render import MOST_EARLIER, WorkflowContext
from poimen.step_rules import LONGEST_WAIT, Move, Spent, StepPolicy, readable

# A decision and a result carry at most this many attempts: the first one, and the latest. The journal has them all.
MOST_RECORDS = 50
# What a signature or a package's id may have on the wire; one that has more was not made by memory.
_LONGEST_ID = 64
_MOST_TOKENS = 2**63 - 1
_MOST_WARNINGS = 3


@dataclass(frozen=True)
class StepSpec:
    """What is to be done, and who the step is; ``key`` prefixes every record's idempotency key."""

    scope: str
    step: str
    key: str
    policy: StepPolicy
    run: str
    branch: str | None = None
    tenant: str | None = None
    phase: str | None = None
    visit: int = 1
    tool: str = "executor"
    task: str = ""
    environment: Fingerprint = field(default_factory=dict)
    memory: MemoryMode = "on"
    preventable: tuple[str, ...] = ()
    definition_hash: str | None = None
    occurrence_id: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class AttemptWork:
    """One attempt to make: its number, what memory said, and how many seconds it may take."""

    attempt: int
    context: RenderedContext
    seconds_left: float | None


@dataclass(frozen=True)
class AttemptReport:
    """What an attempt came to. ``final`` says why repeating cannot cure it.

    Whatever is given, a report fits every message that is made of it: texts are cut to their two ends, times and counts
    to what the contracts allow.
    """

    outcome: AttemptOutcome
    source: FailureSource = "step"
    error: str = ""
    exit_code: int | None = None
    final: str | None = None
    output: str = ""
    seconds: float = 0.0
    tokens: int = 0
    reference: OutputReference | None = None
    report: StepReport | None = None
    service_wait_seconds: float | None = None
    # What the next attempt of the step goes on from; None when this one left nothing.
    checkpoint: OutputReference | None = None
    # What was wrong with what the attempt left behind; at most 3 are kept.
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # A message that is refused where it is made would fail the workflow task again and again.
        wait = self.service_wait_seconds
        fitted = {
            "error": both_ends(self.error),
            "output": both_ends(self.output),
            "final": None if self.final is None else readable(self.final),
            "seconds": _bounded(self.seconds),
            "tokens": min(max(0, self.tokens), _MOST_TOKENS),
            "service_wait_seconds": None if wait is None else _bounded(wait),
            "warnings": tuple(readable(warning) for warning in self.warnings[:_MOST_WARNINGS]),
        }
        for name, value in fitted.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Progress:
    """A step execution at one moment, for people who watch."""

    spec: StepSpec
    attempts: tuple[AttemptRecord, ...]
    package: ContextPackage | None
    analysis: Analysis | None
    prevention: Prevention | None
    left: BudgetLeft
    activity: str
    silent: bool
    pending: int
    refusal: str = ""
    end: StepEnd | None = None
    reason: str = ""


@dataclass
class StepState:
    """The running account of one step execution."""

    spec: StepSpec
    started_at: datetime
    # The bounds as they are now: a shared budget may shrink while the step runs.
    policy: StepPolicy
    attempts: list[AttemptRecord] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)
    applied: AppliedAction = field(default_factory=AppliedAction)
    prevention: Prevention | None = None
    package: ContextPackage | None = None
    analysis: Analysis | None = None
    last: AttemptReport | None = None
    # When each signature, or a failure that got none, was first met in this occurrence.
    first_failed_at: dict[str | None, datetime] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """The attempt that is next, counted from 1."""
        return self.spent.attempts + 1

    @property
    def package_id(self) -> str | None:
        """The package delivered to the present attempt."""
        return _short_id(self.package.package_id) if self.package else None

    @property
    def signature(self) -> str | None:
        """The signature of the latest failure, None when memory gave none."""
        return _short_id(self.analysis.signature) if self.analysis else None

    def count(self, *, attempts: int = 0, tokens: int = 0, waits: int = 0, repairs: tuple[str, ...] = ()) -> None:
        """Add to what was spent."""
        self.spent = replace(
            self.spent,
            attempts=self.spent.attempts + attempts,
            tokens=min(self.spent.tokens + tokens, _MOST_TOKENS),
            waits=self.spent.waits + waits,
            repairs=self.spent.repairs + repairs,
        )

    def spent_at(self, now: datetime) -> Spent:
        """Return what was spent, time included."""
        return replace(self.spent, seconds=self.seconds(now))

    def seconds(self, now: datetime) -> float:
        """Return the seconds since the step began."""
        return _bounded((now - self.started_at) / timedelta(seconds=1))

    def left(self, now: datetime) -> BudgetLeft:
        """Return what the next attempts may spend: the tighter of the step's limits and its budgets."""
        policy = self.policy
        bounds = [bound for bound in (policy.attempts, policy.attempts_budget) if bound is not None]
        tokens, seconds = policy.tokens_budget, policy.seconds_budget
        return BudgetLeft(
            attempts=max(0, min(bounds) - self.spent.attempts) if bounds else None,
            tokens=None if tokens is None else max(0, tokens - self.spent.tokens),
            time_seconds=None if seconds is None else _bounded(seconds - self.seconds(now)),
        )

    def since_first_failure(self, now: datetime) -> float:
        """Return the seconds since the latest failure's signature was first met here."""
        first = self.first_failed_at.get(self.signature)
        return 0.0 if first is None else _bounded((now - first) / timedelta(seconds=1))

    def record(self, report: AttemptReport, advice: RetryAdvice | None, move: Move | None) -> None:
        """Note an attempt with what memory said and what follows."""
        failed = report.outcome == "failed"
        signed = self.analysis if failed else None
        self.attempts.append(
            AttemptRecord(
                attempt=self.spent.attempts,
                outcome=report.outcome,
                source=report.source if failed else None,
                exit_code=report.exit_code,
                seconds=report.seconds,
                tokens=report.tokens,
                signature=self.signature if signed else None,
                title=readable(signed.title) if signed else None,
                applied=self.applied,
                advice=advice.model_copy(update={"because": readable(advice.because)}) if advice else None,
                next_move=f"{move.decided_by}: {move.reason}" if move else "",
                package_id=self.package_id,
                output_reference=report.reference.sha256 if report.reference else None,
                warnings=report.warnings,
            )
        )

    def records(self) -> tuple[AttemptRecord, ...]:
        """Return the attempts that a message carries."""
        if len(self.attempts) <= MOST_RECORDS:
            return tuple(self.attempts)
        return (self.attempts[0], *self.attempts[1 - MOST_RECORDS :])

    def earlier(self) -> tuple[EarlierAttempt, ...]:
        """Return the latest attempts as L0 tells them."""
        return tuple(
            EarlierAttempt(
                attempt=record.attempt,
                outcome=record.outcome,
                signature=record.signature,
                title=record.title,
                advice=record.advice.verdict if record.advice else None,
                because=record.advice.because if record.advice else None,
            )
            for record in self.attempts[-MOST_EARLIER:]
        )

    def workflow_context(self, now: datetime) -> WorkflowContext:
        """Return L0 for the next attempt."""
        left = self.left(now)
        return WorkflowContext(
            step=self.spec.step,
            attempt=self.number,
            attempts=None if left.attempts is None else self.spent.attempts + left.attempts,
            phase=self.spec.phase,
            visit=self.spec.visit,
            definition_hash=self.spec.definition_hash,
            earlier=self.earlier(),
            budget_left=left,
            run=self.spec.run,
        )


def _bounded(seconds: float) -> float:
    return min(max(0.0, seconds), LONGEST_WAIT)


def _short_id(text: str) -> str | None:
    return text if len(text) <= _LONGEST_ID else None
