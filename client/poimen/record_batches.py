"""Cut records that wait for delivery into messages that fit a payload. Pure."""

import json

from poimen.contracts.run_io import PendingRecord

# A payload may have 2 MiB; a message of records stays well below it.
MOST_BYTES = 512 * 1024


def batches(pending: list[PendingRecord]) -> list[list[PendingRecord]]:
    """Cut records into lists of at most half a MiB of JSON, in order; a larger record has a list of its own."""
    found: list[list[PendingRecord]] = []
    size = MOST_BYTES + 1
    for record in pending:
        # ASCII, because that is what the default converter writes.
        length = len(json.dumps(record.message))
        if size + length > MOST_BYTES:
            found.append([])
            size = 0
        found[-1].append(record)
        size += length
    return found
