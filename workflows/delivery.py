"""Hand what could not be written to an abandoned child that goes on trying."""

import json

from poimen.contracts.message import encode
from poimen.contracts.run_io import DeliverRecordsInput, PendingRecord
from temporalio import workflow

# A payload may have 2 MiB; a child's input stays well below it.
MOST_BYTES = 512 * 1024


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


def batches(pending: list[PendingRecord]) -> list[list[PendingRecord]]:
    """Cut records into lists of at most half a MiB of JSON, in order."""
    found: list[list[PendingRecord]] = []
    size = MOST_BYTES + 1
    for record in pending:
        length = len(json.dumps(record.message, ensure_ascii=False).encode())
        if size + length > MOST_BYTES:
            found.append([])
            size = 0
        found[-1].append(record)
        size += length
    return found
