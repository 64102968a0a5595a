"""Memory's activities as a workflow calls them: by name, one attempt, bounded, every loss told apart."""

import asyncio
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from poimen.memory_link import MemoryLost, MemoryRefused

ATTEMPT_LIMIT = timedelta(seconds=1.5)
# Longer than one attempt: it also bounds the wait for a worker when none is polling.
CALL_LIMIT = timedelta(seconds=2)
FINAL_ERRORS = frozenset({"InvalidInput", "NotFound", "Conflict", "Rejected", "TooLarge", "TenantRefused"})


class TemporalMemory:
    """Calls the memory activities on ``queue`` from inside a workflow."""

    def __init__(self, queue: str) -> None:
        self.queue = queue

    async def __call__(self, activity: str, message: dict[str, object], summary: str) -> object:
        """Return the activity's JSON answer; raise ``MemoryLost`` or ``MemoryRefused``."""
        try:
            return await workflow.execute_activity(
                activity,
                message,
                task_queue=self.queue,
                start_to_close_timeout=ATTEMPT_LIMIT,
                schedule_to_close_timeout=CALL_LIMIT,
                retry_policy=RetryPolicy(maximum_attempts=1),
                summary=summary,
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise asyncio.CancelledError from error
            cause = error.cause
            if isinstance(cause, ApplicationError) and cause.type in FINAL_ERRORS:
                workflow.logger.warning("memory refused %s: %s", activity, cause.type)
                raise MemoryRefused(f"{cause.type}: {cause.message}") from None
            raise MemoryLost from None

    def now(self) -> datetime:
        """Return workflow time."""
        return workflow.now()
