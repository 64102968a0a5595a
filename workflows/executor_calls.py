"""Calls to executors and to a caller's own activities: one attempt each, bounded, cancelled to the end."""

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import exceptions, workflow
from temporalio.common import RetryPolicy
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
from poimen.contracts.problems import InvalidInput
from poimen.contracts.vocabulary import FailureSource

ONCE = RetryPolicy(maximum_attempts=1)
HEARTBEAT = timedelta(seconds=5)
# An executor needs a moment past the command's own limit to end it and to store its output.
GRACE = timedelta(seconds=30)
QUEUE_LIMIT = timedelta(minutes=5)
CLAIM_LIMIT = timedelta(minutes=1)

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
            start_to_close_timeout=CLAIM_LIMIT,
            schedule_to_close_timeout=CLAIM_LIMIT,
            retry_policy=RetryPolicy(maximum_attempts=3),
            summary="claim an executor",
        )
    except ActivityError as error:
        return _failure(error, "no executor answered")
    return _decoded(ExecutorClaim, answer, "ClaimExecutor")


async def run_command(queue: str, request: RunCommand, summary: str) -> CommandResult | CallFailure:
    """Run a command on the claimed executor."""
    answer = await _execute("RunCommand", queue, request, request.timeout_seconds, summary)
    return answer if isinstance(answer, CallFailure) else _decoded(CommandResult, answer, "RunCommand")


async def run_model(queue: str, request: RunModel, summary: str) -> ModelResult | CallFailure:
    """Ask a model through the claimed executor."""
    answer = await _execute("RunModel", queue, request, request.timeout_seconds, summary)
    return answer if isinstance(answer, CallFailure) else _decoded(ModelResult, answer, "RunModel")


async def run_activity(call: ActivityCall, work: ActivityWork, seconds: float, summary: str) -> Any:
    """Run a caller's own activity; return its answer as JSON, or a ``CallFailure``."""
    try:
        return await workflow.execute_activity(
            call.name,
            encode(work),
            task_queue=call.queue or workflow.info().task_queue,
            start_to_close_timeout=timedelta(seconds=seconds),
            schedule_to_close_timeout=timedelta(seconds=seconds) + QUEUE_LIMIT,
            retry_policy=ONCE,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=summary,
        )
    except ActivityError as error:
        failure = _failure(error, "no worker took the activity")
        # A caller's activity need not heartbeat: its start-to-close time-out is the step's own, no lost worker.
        return failure if failure.source != "worker_lost" else CallFailure("timeout", f"timed out after {seconds:g} s")


async def _execute(name: str, queue: str, request: Message, seconds: float, summary: str) -> Any:
    try:
        return await workflow.execute_activity(
            name,
            encode(request),
            task_queue=queue,
            schedule_to_start_timeout=QUEUE_LIMIT,
            start_to_close_timeout=timedelta(seconds=seconds) + GRACE,
            heartbeat_timeout=HEARTBEAT,
            # A second copy of a command that may still be running is worse than a failed attempt.
            retry_policy=ONCE,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=summary,
        )
    except ActivityError as error:
        failure = _failure(error, "no executor took the work")
        # What an executor itself raises is never the step's own failure.
        return replace(failure, source="executor") if failure.source == "step" else failure


def _failure(error: ActivityError, nobody: str) -> CallFailure:
    if is_cancelled_exception(error):
        # The workflow's own cancellation, which waited for the activity to end.
        raise asyncio.CancelledError from error
    cause = error.cause
    if isinstance(cause, exceptions.TimeoutError):
        if cause.type == TimeoutType.SCHEDULE_TO_START:
            return CallFailure("executor", f"{nobody} in time")
        if cause.type == TimeoutType.SCHEDULE_TO_CLOSE:
            return CallFailure("timeout", f"{nobody} in time")
        return CallFailure("worker_lost", "the worker was lost while the work ran")
    if isinstance(cause, ApplicationError):
        wait = cause.next_retry_delay
        text = f"{cause.type}: {cause.message}" if cause.type else cause.message
        return CallFailure("step", text, cause.non_retryable, wait.total_seconds() if wait else None)
    return CallFailure("executor", str(cause or error))


def _decoded(model: type[M], answer: object, label: str) -> M | CallFailure:
    try:
        return decode(model, answer if isinstance(answer, dict) else b"", label).message
    except InvalidInput as error:
        return CallFailure("executor", f"the executor's answer cannot be read: {error}", final=True)
