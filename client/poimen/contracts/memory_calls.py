"""The messages of the memory activities: a request and an answer each.

Waits end in ``_seconds``, memory's own latency in ``_ms``, instants in ``_at`` (RFC 3339, UTC).
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from poimen.contracts.message import FreeText, Identifier, Instant, Many, Message, Name, Scope
from poimen.contracts.problems import refusal
from poimen.contracts.vocabulary import (
    ActionKind,
    AttemptOutcome,
    EmptyReason,
    FailureSource,
    ItemKind,
    Level,
    StepEnd,
    Tier,
    TierHealth,
    TierStatus,
    Trust,
    Verdict,
)

Seconds = Annotated[float, Field(ge=0, le=10**9)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
# Excerpts are cut by the sender (head 2 KiB + tail 4 KiB); this bound only keeps a hand-typed call from looping.
ErrorText = Annotated[FreeText, Field(max_length=262_144)]
ShortText = Annotated[FreeText, Field(max_length=4_096)]
Fingerprint = Annotated[dict[str, Annotated[FreeText, Field(max_length=512)]], Field(max_length=64)]


class Call(Message):
    """Who is asking and for which step execution; every request starts with these fields."""

    scope: Scope
    tenant: Name | None = None
    run: Identifier | None = None
    branch: Name | None = None
    phase: Name | None = None
    step: Name | None = None
    visit: Annotated[int, Field(ge=1, le=100_000)] = 1
    attempt: Annotated[int, Field(ge=1, le=100_000)] = 1
    tool: Name | None = None
    occurrence_id: Identifier | None = None
    environment: Fingerprint = Field(default_factory=dict)
    idempotency_key: Identifier | None = None


class BudgetLeft(Message):
    """What an attempt may still spend; None is no limit."""

    attempts: Count | None = None
    tokens: Count | None = None
    time_seconds: Seconds | None = None


class AppliedAction(Message):
    """What was really done before an attempt."""

    kind: ActionKind = "none"
    repair: Name | None = None
    waited_seconds: Seconds = 0.0
    since_first_failure_seconds: Seconds = 0.0
    # The exit status of the repair command itself; None when no repair ran.
    exit_code: int | None = None


class TierReport(Message):
    """What one tier did within the deadline."""

    tier: Tier
    status: TierStatus
    found: Count = 0
    elapsed_ms: Count = 0


class RememberedItem(Message):
    """One piece of knowledge as it is delivered."""

    id: str
    revision: int = 1
    kind: ItemKind
    level: Level
    tier: Tier
    title: str
    text: str
    origin: str
    trust: Trust
    confidence: Share | None = None
    score: float | None = None
    recorded_at: Instant
    because: str


class SuggestedSkill(Message):
    id: str
    name: str
    because: str
    example: str | None = None


class EarlierAttempt(Message):
    """One earlier try of the same step execution, as L0 tells it."""

    attempt: int
    outcome: AttemptOutcome
    signature: str | None = None
    title: str | None = None
    advice: Verdict | None = None
    because: str | None = None


class Prevention(Message):
    """A repair to run before attempt 1."""

    repair: Name
    because: str
    signature: str | None = None
    confidence: Share = 0.0


class GetContext(Call):
    task: Annotated[FreeText, Field(max_length=65_536)] = ""
    # Of which kinds items and skills may be; empty is all.
    kinds: Many[ItemKind] = ()
    budget_left: BudgetLeft | None = None
    deadline_ms: Annotated[int, Field(ge=1, le=60_000)] = 1_000
    # Repairs whose author allowed them before a failure; only these can be a prevention.
    repairs: Many[Name] = ()
    last_signature: Annotated[str, Field(max_length=64)] | None = None
    last_failure: ErrorText | None = None
    earlier_attempts: Many[EarlierAttempt] = ()
    render: bool = False


class ContextPackage(Message):
    package_id: str
    created_at: Instant
    items: Many[RememberedItem] = ()
    skills: Many[SuggestedSkill] = ()
    earlier_attempts: Many[EarlierAttempt] = ()
    budget_left: BudgetLeft | None = None
    prevention: Prevention | None = None
    tiers: Many[TierReport] = ()
    policy_decision_id: str | None = None
    empty_reason: EmptyReason | None = None
    empty_because: str | None = None
    text: str | None = None
    text_tokens: Count = 0
    # The tenant the worker filled in.
    tenant: str | None = None
    warnings: Many[str] = ()


class LearnFromExecution(Call):
    outcome: AttemptOutcome
    applied: AppliedAction = AppliedAction()
    result: Annotated[FreeText, Field(max_length=65_536)] = ""
    artifacts: Many[ShortText] = ()
    # Those artifacts that may become knowledge of later runs.
    indexed: Many[ShortText] = ()
    tags: Many[Name] = ()
    lesson: Annotated[FreeText, Field(max_length=8_192)] | None = None
    package_id: Annotated[str, Field(max_length=64)] | None = None
    seconds: Seconds | None = None
    tokens: Count | None = None


class Learned(Message):
    knowledge_ids: Many[str] = ()
    learned: Many[str] = ()
    event_id: str
    duplicate: bool = False
    warnings: Many[str] = ()


class AnalyzeError(Call):
    error: ErrorText
    exit_code: int | None = None
    source: FailureSource = "step"
    applied: AppliedAction = AppliedAction()
    package_id: Annotated[str, Field(max_length=64)] | None = None
    repairs: Many[Name] = ()
    attempts_left: Count | None = None
    next_delay_seconds: Seconds | None = None
    longest_delay_seconds: Seconds | None = None
    # A wait the failing service named outside the error text, e.g. an HTTP Retry-After header.
    service_wait_seconds: Seconds | None = None
    seconds: Seconds | None = None
    tokens: Count | None = None


class SeenBefore(Message):
    occurrences: Count
    runs: Count
    first_run: str | None = None
    first_at: Instant | None = None
    last_at: Instant | None = None


class RecoveryStep(Message):
    """One action that may end the failure, best first."""

    action: ActionKind
    repair: str | None = None
    delay_seconds: Seconds = 0.0
    level: Level = "L1"
    confidence: Share
    worked: Count
    tried: Count
    retry: bool = True


class RetryAdvice(Message):
    verdict: Verdict
    repair: str | None = None
    delay_seconds: Seconds = 0.0
    attempts_left: Count | None = None
    confidence: Share
    because: str


class Analysis(Message):
    signature: str
    family: str
    kind: str
    title: str
    failing_line: str
    seen_before: SeenBefore | None = None
    lessons: Many[RememberedItem] = ()
    recovery_steps: Many[RecoveryStep] = ()
    advice: RetryAdvice
    tiers: Many[TierReport] = ()
    event_id: str
    duplicate: bool = False
    tenant: str | None = None
    warnings: Many[str] = ()


class AttemptRecord(Message):
    """One attempt as a decision documents it: what happened, what memory said, what was done."""

    attempt: int
    outcome: AttemptOutcome
    source: FailureSource | None = None
    exit_code: int | None = None
    seconds: Seconds = 0.0
    tokens: Count = 0
    signature: str | None = None
    title: str | None = None
    applied: AppliedAction = AppliedAction()
    advice: RetryAdvice | None = None
    # What the step's rules did next, in words, and who decided it.
    next_move: ShortText = ""
    package_id: str | None = None
    output_reference: str | None = None
    # What was wrong with what the attempt left behind, such as a report that could not be read.
    warnings: Many[ShortText] = ()


class DocumentDecision(Call):
    kind: Name
    decision: ShortText
    reasoning: ShortText = ""
    alternatives: Many[ShortText] = ()
    end: StepEnd | None = None
    attempts: Many[AttemptRecord] = ()
    prevention: Prevention | None = None
    package_ids: Many[Annotated[str, Field(max_length=64)]] = ()
    seconds: Seconds | None = None
    tokens: Count | None = None
    # Whether memory was listened to: an observed run teaches, and is told apart.
    memory: Name | None = None
    definition_hash: Annotated[str, Field(max_length=80)] | None = None
    # The definition's name, of a run that has one.
    definition: Name | None = None


class Documented(Message):
    decision_id: str
    duplicate: bool = False
    warnings: Many[str] = ()


class SummariseRun(Call):
    """Put what came of a run into one item; `run` is its run id or workflow id."""

    run: Identifier


class RunSummarised(Message):
    """The summary of a run; `changed` is false when the item said so already."""

    id: str
    title: str
    text: str
    changed: bool
    warnings: Many[str] = ()


class SearchKnowledge(Call):
    query: Annotated[FreeText, Field(max_length=8_192)]
    kinds: Many[ItemKind] = ()
    tiers: Many[Tier] = ()
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    deadline_ms: Annotated[int, Field(ge=1, le=60_000)] = 2_000


class SearchResult(Message):
    items: Many[RememberedItem] = ()
    empty_reason: EmptyReason | None = None
    empty_because: str | None = None
    tiers: Many[TierReport] = ()
    warnings: Many[str] = ()


class DiagnoseIssue(Call):
    """An error's text, a question in words, or the signature of a failure; exactly one of text and signature."""

    text: Annotated[ErrorText, Field(min_length=1)] | None = None
    signature: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    # The most causes, and the most recovery steps.
    limit: Annotated[int, Field(ge=1, le=20)] = 5
    deadline_ms: Annotated[int, Field(ge=1, le=60_000)] = 2_000

    @model_validator(mode="after")
    def _one_issue(self) -> Self:
        if (self.text is None) == (self.signature is None):
            raise refusal('needs exactly one of "text", "signature"')
        return self


class LikelyCause(Message):
    """What may be behind an issue, and the evidence for it.

    `match` says how near it is: the failure itself in the step that was named, in another step, one of its family,
    or an item or note that shares words.
    """

    match: Literal["same_step", "same_failure", "similar", "words"]
    title: str
    because: str
    signature: str | None = None
    step: str | None = None
    seen: SeenBefore | None = None
    # The item that tells more; all of them are in `items`.
    item: str


class SeenRecovery(RecoveryStep):
    """A recovery step and where it was seen: in which step, against which failure; `similar` for a relative's."""

    step: str | None = None
    signature: str
    similar: bool = False
    item: str


class Diagnosis(Message):
    """What is known of an issue, nearest first; without any cause `empty_reason` says why."""

    signature: str
    family: str | None = None
    kind: str | None = None
    title: str | None = None
    causes: Many[LikelyCause] = ()
    recovery_steps: Many[SeenRecovery] = ()
    items: Many[RememberedItem] = ()
    tiers: Many[TierReport] = ()
    empty_reason: EmptyReason | None = None
    empty_because: str | None = None
    tenant: str | None = None
    warnings: Many[str] = ()


class RetireKnowledge(Call):
    id: Annotated[str, Field(min_length=1, max_length=128)]
    reason: ShortText = ""
    expected_revision: Annotated[int, Field(ge=1)] | None = None


class Retired(Message):
    id: str
    revision: int
    duplicate: bool = False
    warnings: Many[str] = ()


class AcceptKnowledge(Call):
    """Deliver a candidate from now on; for people, at the command line."""

    id: Annotated[str, Field(min_length=1, max_length=128)]
    reason: ShortText = ""


class Accepted(Message):
    id: str
    revision: int
    duplicate: bool = False
    warnings: Many[str] = ()


class HealthCheck(Message):
    """Asks nothing; unknown fields are named in the answer's warnings."""

    tenant: Name | None = None


class TierCondition(Message):
    tier: str
    health: TierHealth
    detail: str
    elapsed_ms: Count = 0
    lag_seconds: Seconds | None = None


class HealthReport(Message):
    tiers: Many[TierCondition]
    warnings: Many[str] = ()
