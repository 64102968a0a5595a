"""Hand what could not be written to an abandoned child that goes on trying."""

from temporalio import workflow

from poimen.contracts.message import encode
from poimen.contracts.run_io import DeliverRecordsInput, PendingRecord
from poimen.record_batches import batches


async def deliver_later(pending: list[PendingRecord], queue: str) -> None:
    """Start as many ``DeliverRecords`` as the records need; they outlive this workflow."""
    info = workflow.info()
    for number, records in enumerate(batches(pending), 1):
        await workflow.start_child_workflow(
            "DeliverRecords",
            encode(DeliverRecordsInput(records=tuple(records), queue=queue)),
            id=f"{info.workflow_id}/records/{info.run_id}/{number}",
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            static_summary=f"{len(records)} records of {info.workflow_id}"[:200],
        )
