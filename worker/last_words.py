"""What the record of a workflow's end must say when the workflow itself could not write it. From its history alone."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent, WorkflowExecutionStartedEventAttributes
from temporalio.client import Client, WorkflowExecution, WorkflowHistoryEventFilterType
from temporalio.common import RawValue

from poimen.contracts.canonical import definition_hash
from poimen.contracts.memory_calls import DocumentDecision
from poimen.contracts.message import decode
from poimen.contracts.problems import InvalidInput
from poimen.contracts.run_io import DeliverRecordsInput, RunState, StartHarnessRun, StartHarnessStep
from poimen.entry import EMPTY, read_input
from workflows.run_records import RunEnd, RunIdentity, run_final, seconds_between

# How a workflow fails that has documented its end, or that never began.
_OWN_FAILURES = frozenset({"RunFailed", "StepFailed", "InvalidInput"})
_ENDINGS = frozenset({"run_final", "step_completion"})


@dataclass(frozen=True)
class Closed:
    """A closed execution and its events."""

    run_id: str
    close_time: datetime | None
    events: Sequence[HistoryEvent]


async def documents_itself(client: Client, found: WorkflowExecution) -> bool:
    """Whether a failed workflow failed by its own decision, and so has put its end on record or queued it."""
    handle = client.get_workflow_handle(found.id, run_id=found.run_id)
    events = handle.fetch_history_events(event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT)
    async for event in events:
        failure = event.workflow_execution_failed_event_attributes.failure
        return failure.application_failure_info.type in _OWN_FAILURES
    return False


def last_words(closed: Closed) -> DocumentDecision | None:
    """Return the record that is missing, or None when it was written or memory was off.

    A record that was on its way is sent again as it was: under the same key it changes nothing if it arrived.
    Raises InvalidInput when the workflow's input cannot be read.
    """
    started = closed.events[0].workflow_execution_started_event_attributes
    sent = _sent(closed.events)
    if sent is not None:
        message, arrived = sent
        return None if arrived else message
    raw = RawValue(started.input.payloads[0]) if started.input.payloads else EMPTY
    ended = _ended(closed.events[-1])
    if started.workflow_type.name == "HarnessRun":
        return _end_of_run(read_input(raw, StartHarnessRun, "HarnessRun").message, started, closed, ended)
    return _end_of_step(read_input(raw, StartHarnessStep, "HarnessStep").message, started, closed, ended)


def _end_of_run(
    start: StartHarnessRun, started: WorkflowExecutionStartedEventAttributes, closed: Closed, ended: RunEnd
) -> DocumentDecision | None:
    if start.memory == "off":
        return None
    state = start.state or RunState()
    who = RunIdentity(
        run=state.run or started.original_execution_run_id,
        key=closed.run_id,
        branch=_branch(started, closed.run_id, state.branch),
        definition_hash=definition_hash(start.definition),
        environment=state.environment,
    )
    seconds = _seconds(closed, state.started_at)
    return run_final(start, who, replace(ended, reason=f"the run {ended.reason}"), seconds, state.tokens_spent)


def _end_of_step(
    start: StartHarnessStep, started: WorkflowExecutionStartedEventAttributes, closed: Closed, ended: RunEnd
) -> DocumentDecision | None:
    if start.memory == "off":
        return None
    sentence = f"the step {ended.reason}"
    return DocumentDecision(
        scope=start.scope,
        tenant=start.tenant,
        run=start.run or started.original_execution_run_id,
        branch=_branch(started, closed.run_id, start.branch),
        phase=start.phase,
        step=start.step.id,
        visit=start.visit,
        tool=start.step.tool,
        environment=start.environment,
        idempotency_key=f"{closed.run_id}:{start.step.id}:{start.visit}:1:document",
        kind="step_completion",
        decision=f"{ended.end}: {sentence}",
        reasoning=sentence,
        end=ended.end,
        seconds=_seconds(closed, None),
        memory=start.memory,
        definition_hash=start.definition_hash,
    )


def _branch(started: WorkflowExecutionStartedEventAttributes, run_id: str, inherited: str | None) -> str | None:
    return run_id[:8] if run_id != started.original_execution_run_id else inherited


def _seconds(closed: Closed, began: datetime | None) -> float:
    first = closed.events[0].event_time.ToDatetime(UTC)
    return seconds_between(began or first, closed.close_time or closed.events[-1].event_time.ToDatetime(UTC))


def _ended(event: HistoryEvent) -> RunEnd:
    if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
        return RunEnd("cancelled", "was cancelled")
    if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
        return RunEnd("interrupted", "was terminated")
    if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
        return RunEnd("interrupted", "timed out")
    return RunEnd("interrupted", "failed without a result")


def _sent(events: Iterable[HistoryEvent]) -> tuple[DocumentDecision, bool] | None:
    """Return the last record of an end that the workflow sent itself, and whether memory took it."""
    found: tuple[DocumentDecision, bool] | None = None
    scheduled = 0
    for event in events:
        for message in _endings(event):
            found, scheduled = (message, False), event.event_id
        completed = event.activity_task_completed_event_attributes.scheduled_event_id
        if found is not None and completed == scheduled:
            found = (found[0], True)
    return found


def _endings(event: HistoryEvent) -> Iterator[DocumentDecision]:
    if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
        activity = event.activity_task_scheduled_event_attributes
        if activity.activity_type.name == "DocumentDecision":
            yield from _decisions(payload.data for payload in activity.input.payloads)
    elif event.event_type == EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
        child = event.start_child_workflow_execution_initiated_event_attributes
        if child.workflow_type.name == "DeliverRecords":
            yield from _decisions(_delivered(child.input.payloads))


def _delivered(payloads: Iterable[Payload]) -> Iterator[dict[str, object]]:
    for payload in payloads:
        for record in decode(DeliverRecordsInput, payload.data, "DeliverRecords").message.records:
            if record.activity == "DocumentDecision":
                yield record.message


def _decisions(messages: Iterable[bytes | dict[str, object]]) -> Iterator[DocumentDecision]:
    for data in messages:
        try:
            message = decode(DocumentDecision, data, "DocumentDecision").message
        except InvalidInput:
            continue
        if message.kind in _ENDINGS:
            yield message
