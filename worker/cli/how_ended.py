"""How a run or a lone step ended, read from its history: from its last event, and from what it started."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from temporalio import exceptions
from temporalio.api.common.v1 import Payload
from temporalio.api.common.v1 import WorkflowExecution as WorkflowExecutionReference
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus, WorkflowHistoryEventFilterType
from temporalio.service import RPCError, RPCStatusCode

from poimen.contracts.message import decode
from poimen.contracts.problems import InvalidInput
from poimen.contracts.run_io import HarnessRunResult, StepResult

RUN: Final = "HarnessRun"
STEP: Final = "HarnessStep"
_MOST_CAUSES: Final = 3
# What asks memory before an attempt has a number too, and the attempt may never begin.
_ATTEMPT: Final = re.compile(r"^run · attempt (\d+)$")
_ENDS: Final = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED: "was cancelled",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: "was terminated",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: "ran out of time",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED: "failed without a result",
}


@dataclass(frozen=True)
class HowEnded:
    """An end in the words of the result, or of Temporal where there is none; `seconds` is None then."""

    end: str
    reason: str
    attempts: int
    seconds: float | None = None


async def how_ended(client: Client, found: WorkflowExecution) -> HowEnded:
    """Tell how an execution ended, or what a running one has come to."""
    last = await last_event(client, found.id, found.run_id) if found.status != WorkflowExecutionStatus.RUNNING else None
    result = await _result(client, found.workflow_type, last) if last is not None else None
    if isinstance(result, HarnessRunResult):
        result = await with_first_causes(client, result)
        return HowEnded(result.end, result.reason, result.attempts, result.seconds)
    if isinstance(result, StepResult):
        return HowEnded(result.end, result.reason, result.attempts_made, result.seconds)
    word = (found.status.name if found.status else "unknown").lower().replace("_", " ")
    noun = "run" if found.workflow_type == RUN else "step"
    reason = await _reason(client, noun, last) if last is not None else ""
    return HowEnded("cancelled" if word == "canceled" else word, reason, await _attempts(client, found))


async def last_event(client: Client, workflow_id: str, run_id: str | None = None) -> HistoryEvent | None:
    """Return the event that closed an execution, None when the server no longer has its history."""
    kind = WorkflowHistoryEventFilterType.CLOSE_EVENT
    return await anext(_events(client, workflow_id, run_id, event_filter_type=kind), None)


async def with_first_causes(client: Client, result: HarnessRunResult) -> HarnessRunResult:
    """Add to a run's reason what people said who terminated steps of it, the first ones first."""
    ended = [(step.step, step.workflow_id) for step in result.steps if step.end == "interrupted" and step.workflow_id]
    if not ended or result.end == "succeeded":
        return result
    events = await asyncio.gather(*(last_event(client, workflow_id) for _, workflow_id in ended[:_MOST_CAUSES]))
    said = [
        f"{step}: {event.workflow_execution_terminated_event_attributes.reason}"
        for (step, _), event in zip(ended, events, strict=False)
        if event is not None and event.workflow_execution_terminated_event_attributes.reason
    ]
    return result.model_copy(update={"reason": f"{result.reason} ({'; '.join(said)})"}) if said else result


async def is_reset(client: Client, found: WorkflowExecution) -> bool:
    """Tell whether an execution goes on from a point of an earlier one."""
    first = await anext(_events(client, found.id, found.run_id, page_size=1), None)
    if first is None:
        return False
    return first.workflow_execution_started_event_attributes.original_execution_run_id != found.run_id


async def _events(
    client: Client, workflow_id: str, run_id: str | None, **asked: Any
) -> AsyncGenerator[HistoryEvent, None]:
    """Give the events of a history, and none when it was deleted: the others are told all the same."""
    try:
        async for event in client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history_events(**asked):
            yield event
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise


async def _result(client: Client, kind: str, last: HistoryEvent) -> HarnessRunResult | StepResult | None:
    completed = last.workflow_execution_completed_event_attributes.result.payloads
    if completed:
        return _decoded(kind, (await client.data_converter.decode(completed))[0])
    error = await _failure(client, last)
    return (
        _decoded(kind, error.details[0]) if isinstance(error, exceptions.ApplicationError) and error.details else None
    )


async def _failure(client: Client, last: HistoryEvent) -> BaseException | None:
    failed = last.workflow_execution_failed_event_attributes
    return await client.data_converter.decode_failure(failed.failure) if failed.HasField("failure") else None


def _decoded(kind: str, value: Any) -> HarnessRunResult | StepResult | None:
    message = value if isinstance(value, dict) else b""
    try:
        return (
            decode(HarnessRunResult, message, kind).message
            if kind == RUN
            else decode(StepResult, message, kind).message
        )
    except InvalidInput:
        return None


async def _reason(client: Client, noun: str, last: HistoryEvent) -> str:
    error = await _failure(client, last)
    if error is not None:
        return error.message if isinstance(error, exceptions.ApplicationError) else str(error)
    how = f"the {noun} {_ENDS.get(last.event_type, 'ended without a result')}"
    said = last.workflow_execution_terminated_event_attributes.reason
    return f"{how}: {said}" if said else how


async def _attempts(client: Client, found: WorkflowExecution) -> int:
    """Count the attempts that were begun, by what the steps scheduled."""
    if found.workflow_type == STEP:
        return await _attempts_of_step(client, found.id, found.run_id)
    steps = [step async for step in _steps(client, found.id, found.run_id)]
    return sum(await asyncio.gather(*(_attempts_of_step(client, step.workflow_id, step.run_id) for step in steps)))


async def _steps(client: Client, workflow_id: str, run_id: str) -> AsyncIterator[WorkflowExecutionReference]:
    """Give the steps that a run started, and those it started before it continued as new."""
    former = run_id
    while former:
        events = _events(client, workflow_id, former)
        former = ""
        async for event in events:
            former = former or event.workflow_execution_started_event_attributes.continued_execution_run_id
            started = event.child_workflow_execution_started_event_attributes
            if started.workflow_type.name == STEP:
                yield started.workflow_execution


async def _attempts_of_step(client: Client, workflow_id: str, run_id: str) -> int:
    return max([number async for number in _numbers(client, _events(client, workflow_id, run_id))], default=0)


async def _numbers(client: Client, events: AsyncIterator[HistoryEvent]) -> AsyncIterator[int]:
    async for event in events:
        summary = event.user_metadata.summary
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED and summary.data:
            match = _ATTEMPT.search(await _text(client, summary))
            if match is not None:
                yield int(match[1])


async def _text(client: Client, payload: Payload) -> str:
    return str((await client.data_converter.decode([payload]))[0])
