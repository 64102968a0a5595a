"""DeliverRecords: write what a run could not, under the keys it already has, for a day."""

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from poimen.contracts.run_io import DeliverRecordsInput
    from poimen.entry import EMPTY, one_argument
    from poimen.step_rules import readable
    from poimen.temporal_memory import FINAL_ERRORS, was_cancelled

from workflows.messages import accept

LIFETIME = timedelta(hours=24)
RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    maximum_interval=timedelta(minutes=1),
    non_retryable_error_types=sorted(FINAL_ERRORS),
)


@workflow.defn(name="DeliverRecords")
class DeliverRecords:
    """Delivers records in order; one that memory refuses for good is reported and passed over."""

    def __init__(self) -> None:
        self.delivered = 0
        self.refused: list[str] = []
        self.total = 0

    @workflow.run
    @one_argument
    async def run(self, raw: RawValue = EMPTY) -> dict[str, Any]:
        """Return how many records were delivered, and why others were not."""
        start = accept(raw, DeliverRecordsInput, "DeliverRecords").message
        self.total = len(start.records)
        deadline = workflow.now() + LIFETIME
        for record in start.records:
            self._show()
            try:
                await workflow.execute_activity(
                    record.activity,
                    record.message,
                    task_queue=start.queue,
                    # Only that memory answered matters; an answer that cannot be decoded would fail the workflow task.
                    result_type=RawValue,
                    start_to_close_timeout=timedelta(seconds=10),
                    schedule_to_close_timeout=max(deadline - workflow.now(), timedelta(seconds=1)),
                    retry_policy=RETRY,
                    summary="deliver",
                )
                self.delivered += 1
            except ActivityError as error:
                if was_cancelled(error):
                    raise
                self.refused.append(_why(error))
        self._show()
        return {"delivered": self.delivered, "refused": self.refused}

    @workflow.query(description="How many records are delivered, refused and left.")
    def progress(self) -> dict[str, Any]:
        """Return the counts."""
        left = self.total - self.delivered - len(self.refused)
        return {"delivered": self.delivered, "refused": self.refused, "left": left}

    def _show(self) -> None:
        workflow.set_current_details(f"**{self.delivered} of {self.total}** records delivered")


def _why(error: ActivityError) -> str:
    cause = error.cause
    if isinstance(cause, ApplicationError):
        return readable(f"{cause.type}: {cause.message}")
    return f"not delivered within {LIFETIME // timedelta(hours=1)} hours"
