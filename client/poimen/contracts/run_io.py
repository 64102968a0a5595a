"""What the workflows take and give."""

from typing import Annotated

from pydantic import Field

from poimen.contracts.definition import Budget, Retry, Step, WorkflowDef
from poimen.contracts.memory_calls import (
    AttemptRecord,
    BudgetLeft,
    Count,
    Fingerprint,
    Prevention,
    Seconds,
    ShortText,
)
from poimen.contracts.message import Identifier, Instant, Many, Message, Name, Queue, Scope
from poimen.contracts.vocabulary import MemoryMode, StepEnd

# Records that one delivery takes.
MOST_DELIVERED = 1_000


class RunState(Message):
    """What a long run carries over continue-as-new."""

    # The run's identity, and the execution that wrote this state: only the one that follows it may go on from here.
    run: Identifier | None = None
    written_by: Identifier | None = None
    visits: dict[str, int] = Field(default_factory=dict)
    go_tos: dict[str, int] = Field(default_factory=dict)
    done: dict[str, StepEnd] = Field(default_factory=dict)
    phase: Count = 0
    phase_visits: Count = 0
    attempts_spent: Count = 0
    tokens_spent: Count = 0
    # The budget with what operators added; None: the definition's.
    budget: Budget | None = None
    started_at: Instant | None = None
    branch: Name | None = None
    silent_until: Instant | None = None
    executor_queue: Queue | None = None
    environment: Fingerprint = Field(default_factory=dict)
    steps: Many["StepSummary"] = ()
    undelivered_records: Count = 0
    warnings: Many[ShortText] = ()


class StartHarnessRun(Message):
    """The input of HarnessRun."""

    definition: WorkflowDef
    memory: MemoryMode = "on"
    workspace: Annotated[str, Field(max_length=4_096)] | None = None
    tenant: Name | None = None
    # Advice below this confidence is reported and not applied.
    least_confidence: Annotated[float, Field(ge=0, le=1)] = 0.0
    state: RunState | None = None


class StepSummary(Message):
    step: str
    phase: str
    visit: int
    end: StepEnd
    attempts: Count
    seconds: Seconds
    tokens: Count = 0
    reason: str
    prevented_by: str | None = None
    workflow_id: str | None = None
    # What its last failed attempt failed with, in a line; "" when it passed.
    failure: ShortText = ""


class HarnessRunResult(Message):
    run: str
    end: StepEnd
    reason: str
    definition_hash: str
    steps: Many[StepSummary]
    attempts: Count
    tokens: Count
    seconds: Seconds
    memory: MemoryMode
    undelivered_records: Count = 0
    # What did not go as asked and failed nothing: a field that is not known, a refusal of memory; at most 10.
    warnings: Many[ShortText] = ()


class StartHarnessStep(Message):
    """The input of HarnessStep; alone it needs a scope and a step."""

    scope: Scope
    step: Step
    tenant: Name | None = None
    run: Identifier | None = None
    branch: Name | None = None
    phase: Name | None = None
    visit: Annotated[int, Field(ge=1, le=100_000)] = 1
    retry: Retry = Retry()
    memory: MemoryMode = "on"
    workspace: Annotated[str, Field(max_length=4_096)] | None = None
    definition_hash: Annotated[str, Field(max_length=80)] | None = None
    # None: the step claims an executor itself.
    executor_queue: Queue | None = None
    environment: Fingerprint = Field(default_factory=dict)
    budget_left: BudgetLeft = BudgetLeft()
    deadline_at: Instant | None = None
    silent_until: Instant | None = None
    least_confidence: Annotated[float, Field(ge=0, le=1)] = 0.0
    # Whether the run must hear of tokens after every attempt, because other steps share its budget.
    reports_tokens: bool = False


class StepTokens(Message):
    """Tokens a running step has used so far; and, the other way, what it may use in all."""

    step: Name
    tokens: Count


class ExtendBudget(Message):
    """What an operator adds to a running run's budget."""

    attempts: Count = 0
    tokens: Count = 0
    seconds: Seconds = 0.0


class StepResult(Message):
    """How a step execution ended, and what it cost."""

    step: str
    visit: int
    end: StepEnd
    reason: str
    # The first and the latest attempts; at most 50.
    attempts: Many[AttemptRecord] = ()
    attempts_made: Count = 0
    prevention: Prevention | None = None
    output: str = ""
    seconds: Seconds = 0.0
    tokens: Count = 0
    silent_until: Instant | None = None
    undelivered_records: Count = 0
    warnings: Many[ShortText] = ()


class PendingRecord(Message):
    """A record that could not be written: the activity and its message, key included."""

    activity: Name
    message: dict[str, object]


class DeliverRecordsInput(Message):
    records: Annotated[Many[PendingRecord], Field(max_length=MOST_DELIVERED)]
    queue: Queue
