"""Memory's activities as a workflow calls them: by name, one attempt, bounded, every loss told apart."""

import asyncio
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from poimen.memory_link import MemoryLost, MemoryRefused

ATTEMPT_LIMIT = timedelta(seconds=1.5)
# Longer than one attempt: it also bounds the wait for a worker when none is polling.
CALL_LIMIT = timedelta(seconds=2)
FINAL_ERRORS = frozenset({"InvalidInput", "NotFound", "Conflict", "Rejected", "TooLarge", "TenantRefused"})


def was_cancelled(error: BaseException) -> bool:
    """Whether an error is the cancellation that this workflow, or this task of it, was asked for.

    A child that a person cancelled, or an activity whose worker ended, is a failure like every other.
    """
    if not is_cancelled_exception(error):
        return False
    task = asyncio.current_task()
    return workflow.cancellation_reason() is not None or (task is not None and task.cancelling() > 0)


class TemporalMemory:
    """Calls the memory activities on ``queue`` from inside a workflow."""

    def __init__(self, queue: str) -> None:
        self.queue = queue

    async def __call__(self, activity: str, message: dict[str, object], summary: str) -> object:
        """Return the activity's JSON answer; raise ``MemoryLost`` or ``MemoryRefused``."""
        try:
            told: RawValue | None = await workflow.execute_activity(
                activity,
                message,
                result_type=RawValue,
                task_queue=self.queue,
                start_to_close_timeout=ATTEMPT_LIMIT,
                schedule_to_close_timeout=CALL_LIMIT,
                retry_policy=RetryPolicy(maximum_attempts=1),
                summary=summary,
            )
        except ActivityError as error:
            if was_cancelled(error):
                raise asyncio.CancelledError from error
            cause = error.cause
            if isinstance(cause, ApplicationError) and cause.type in FINAL_ERRORS:
                workflow.logger.warning("memory refused %s: %s", activity, cause.type)
                raise MemoryRefused(f"{cause.type}: {cause.message}") from None
            raise MemoryLost from None
        return _decoded(told, activity)

    def now(self) -> datetime:
        """Return workflow time."""
        return workflow.now()


def _decoded(told: RawValue | None, activity: str) -> object:
    if not isinstance(told, RawValue):
        return told
    try:
        return workflow.payload_converter().from_payload(told.payload)
    except Exception:
        # Decoded by the SDK, an answer in a form that only its sender knows would fail the workflow task for ever.
        workflow.logger.warning("the answer of %s cannot be decoded", activity)
        raise MemoryLost from None
