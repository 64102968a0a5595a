"""Hand what could not be written to an abandoned child that goes on trying."""

from temporalio import workflow

from poimen.contracts.message import encode
from poimen.contracts.run_io import DeliverRecordsInput, PendingRecord
from poimen.record_batches import DELIVERY_LIMIT, batches


async def deliver_later(pending: list[PendingRecord], queue: str, *, after: int = 0) -> int:
    """Start as many ``DeliverRecords`` as the records need, which outlive this workflow, and empty the list.

    They are numbered from ``after`` + 1 on; return the last number.
    """
    info, number = workflow.info(), after
    found = batches(pending)
    pending.clear()
    for number, records in enumerate(found, after + 1):
        await workflow.start_child_workflow(
            "DeliverRecords",
            encode(DeliverRecordsInput(records=tuple(records), queue=queue)),
            id=f"{info.workflow_id}/records/{info.run_id}/{number}",
            execution_timeout=DELIVERY_LIMIT,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            static_summary=f"{len(records)} records of {info.workflow_id}"[:200],
        )
    return number
