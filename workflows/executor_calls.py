"""Calls to executors and to a caller's own activities: one attempt each, bounded, cancelled to the end."""

import asyncio
import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import exceptions, workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType, is_cancelled_exception

from poimen.contracts.definition import ActivityCall, WorkflowDef
from poimen.contracts.execution import (
    ActivityWork,
    ClaimExecutor,
    CommandResult,
    EnvironmentProbe,
    ExecutorClaim,
    ModelResult,
    RunCommand,
    RunModel,
)
from poimen.contracts.message import Message, decode, encode
from poimen.contracts.vocabulary import FailureSource
from poimen.render import plain
from poimen.step_rules import readable
from poimen.temporal_memory import was_cancelled

ONCE = RetryPolicy(maximum_attempts=1)
HEARTBEAT = timedelta(seconds=5)
# An executor needs a moment past the command's own limit to end it and to store its output.
GRACE = timedelta(seconds=30)
# An executor may need a while to look through its state before it gathers, and beats only while it gathers.
CLAIM_HEARTBEAT = timedelta(seconds=20)
QUEUE_LIMIT = timedelta(minutes=5)
CLAIM_LIMIT = timedelta(minutes=1)
_JSON = (b"json/plain", b"json/protobuf")
_NOTHING = (b"", b"binary/null")

M = TypeVar("M", bound=Message)


@dataclass(frozen=True)
class CallFailure:
    """An execution that gave no result of its own. ``final``: repeating cannot cure it."""

    source: FailureSource
    error: str
    final: bool = False
    service_wait_seconds: float | None = None


def claim_queue(task_queue: str) -> str:
    """Name the queue on which any executor answers a claim."""
    return f"{task_queue}-executors"


def probes(definition: WorkflowDef) -> tuple[EnvironmentProbe, ...]:
    """Return what an executor gathers once for a run."""
    return tuple(
        EnvironmentProbe(name=name, command=source.command, file=source.file, variable=source.env)
        for name, source in sorted(definition.environment.items())
    )


async def claim(request: ClaimExecutor) -> ExecutorClaim | CallFailure:
    """Claim one executor for a run; it answers with its own queue."""
    try:
        answer = await workflow.execute_activity(
            "ClaimExecutor",
            encode(request),
            task_queue=claim_queue(workflow.info().task_queue),
            result_type=RawValue,
            start_to_close_timeout=CLAIM_LIMIT,
            schedule_to_close_timeout=CLAIM_LIMIT,
            heartbeat_timeout=CLAIM_HEARTBEAT,
            retry_policy=RetryPolicy(maximum_attempts=3),
            summary="claim an executor",
        )
    except ActivityError as error:
        return _failure(error, "no executor answered")
    return _decoded(ExecutorClaim, answer, "ClaimExecutor")


async def run_command(
    queue: str, request: RunCommand, summary: str, seconds_left: float | None = None
) -> CommandResult | CallFailure:
    """Run a command on the claimed executor; ``seconds_left`` of a time budget bound the wait in its queue too."""
    answer = await _execute("RunCommand", queue, request, request.timeout_seconds, summary, seconds_left)
    return answer if isinstance(answer, CallFailure) else _decoded(CommandResult, answer, "RunCommand")


async def run_model(
    queue: str, request: RunModel, summary: str, seconds_left: float | None = None
) -> ModelResult | CallFailure:
    """Ask a model through the claimed executor; ``seconds_left`` of a time budget bound the wait in its queue too."""
    answer = await _execute("RunModel", queue, request, request.timeout_seconds, summary, seconds_left)
    return answer if isinstance(answer, CallFailure) else _decoded(ModelResult, answer, "RunModel")


async def run_activity(
    call: ActivityCall, work: ActivityWork, seconds: float, summary: str, seconds_left: float | None = None
) -> Any:
    """Run a caller's own activity; return its answer as JSON, or a ``CallFailure``.

    It may wait for a worker as long as its definition says; ``seconds_left`` of a time budget bound that wait too.
    """
    limit, cut = _queue_limit(seconds_left, timedelta(milliseconds=call.start_within))
    queue = call.queue or workflow.info().task_queue
    try:
        answer = await workflow.execute_activity(
            call.name,
            encode(work),
            task_queue=queue,
            # An answer that this worker cannot decode would fail the workflow task, for ever.
            result_type=RawValue,
            schedule_to_start_timeout=limit,
            start_to_close_timeout=timedelta(seconds=seconds),
            retry_policy=ONCE,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=summary,
        )
    except ActivityError as error:
        failure = _failure(error, f"no worker took the activity from queue {plain(queue)}", cut_in_queue=cut)
        # A caller's activity need not heartbeat: its start-to-close time-out is the step's own, no lost worker.
        return failure if failure.source != "worker_lost" else CallFailure("timeout", f"timed out after {seconds:g} s")
    try:
        return _json(answer)
    except ValueError as error:
        return CallFailure("step", readable(f"the activity's answer cannot be read: {error}"), final=True)


async def _execute(
    name: str, queue: str, request: Message, seconds: float, summary: str, seconds_left: float | None
) -> RawValue | CallFailure | None:
    limit, cut = _queue_limit(seconds_left)
    try:
        answer: RawValue | None = await workflow.execute_activity(
            name,
            encode(request),
            task_queue=queue,
            result_type=RawValue,
            schedule_to_start_timeout=limit,
            start_to_close_timeout=timedelta(seconds=seconds) + GRACE,
            heartbeat_timeout=HEARTBEAT,
            # A second copy of a command that may still be running is worse than a failed attempt.
            retry_policy=ONCE,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=summary,
        )
    except ActivityError as error:
        failure = _failure(error, "no executor took the work", cut_in_queue=cut)
        # What an executor itself raises is never the step's own failure.
        return replace(failure, source="executor") if failure.source == "step" else failure
    return answer


def _queue_limit(seconds_left: float | None, limit: timedelta = QUEUE_LIMIT) -> tuple[timedelta, bool]:
    """Return how long work may wait for a worker, and whether a time budget set that."""
    if seconds_left is None or seconds_left >= limit.total_seconds():
        return limit, False
    # The server takes no limit of 0.
    return timedelta(seconds=max(0.1, seconds_left)), True


def _failure(error: ActivityError, nobody: str, *, cut_in_queue: bool = False) -> CallFailure:
    if was_cancelled(error):
        # The workflow's own cancellation, which waited for the activity to end.
        raise asyncio.CancelledError from error
    if is_cancelled_exception(error):
        return CallFailure("cancelled", "the activity was cancelled, and its workflow was not")
    cause = error.cause
    if isinstance(cause, exceptions.TimeoutError):
        if cause.type == TimeoutType.SCHEDULE_TO_START:
            if cut_in_queue:
                return CallFailure("budget", f"{nobody} before the time budget ended")
            return CallFailure("executor", f"{nobody} in time")
        if cause.type == TimeoutType.SCHEDULE_TO_CLOSE:
            return CallFailure("timeout", f"{nobody} in time")
        return CallFailure("worker_lost", "the worker was lost while the work ran")
    if isinstance(cause, ApplicationError):
        wait = cause.next_retry_delay
        text = f"{cause.type}: {cause.message}" if cause.type else cause.message
        return CallFailure("step", text, cause.non_retryable, wait.total_seconds() if wait else None)
    return CallFailure("executor", str(cause or error))


def _decoded(model: type[M], answer: RawValue | None, label: str) -> M | CallFailure:
    try:
        told = _json(answer)
        return decode(model, told if isinstance(told, dict) else b"", label).message
    except ValueError as error:
        return CallFailure("executor", readable(f"the executor's answer cannot be read: {error}"), final=True)


def _json(answer: RawValue | None) -> Any:
    """Return an answer's JSON, None when there is none; raise ``ValueError`` for whatever else it is."""
    if answer is None:
        return None
    encoding = answer.payload.metadata.get("encoding", b"")
    if encoding in _NOTHING:
        return None
    if encoding not in _JSON:
        raise ValueError(f"its encoding is {encoding.decode(errors='replace')}, not json/plain")
    try:
        return json.loads(answer.payload.data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
