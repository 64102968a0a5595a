"""Cut records that wait for delivery into messages that fit a payload. Pure."""

import json
from datetime import timedelta

from poimen.contracts.run_io import MOST_DELIVERED, PendingRecord

# A payload may have 2 MiB; a message of records stays well below it.
MOST_BYTES = 512 * 1024
# The life of what delivers them: an hour past the day for which records are tried.
DELIVERY_LIMIT = timedelta(hours=25)


def batches(pending: list[PendingRecord]) -> list[list[PendingRecord]]:
    """Cut records into lists of at most half a MiB of JSON and 1,000 records, in order.

    A larger record has a list of its own.
    """
    found: list[list[PendingRecord]] = []
    size = MOST_BYTES + 1
    for record in pending:
        # ASCII, because that is what the default converter writes.
        length = len(json.dumps(record.message))
        if size + length > MOST_BYTES or len(found[-1]) >= MOST_DELIVERED:
            found.append([])
            size = 0
        found[-1].append(record)
        size += length
    return found
