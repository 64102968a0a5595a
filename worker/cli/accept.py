"""`poimen accept`: deliver a candidate from now on."""

import argparse

from memory.accept import accept
from memory.items import find_item
from memory.postgres import tenant_transaction
from poimen.contracts.memory_calls import AcceptKnowledge
from poimen.contracts.message import decode, encode
from worker.cli.opened import DEADLINE_SECONDS, opened_stores, operator
from worker.cli.output import one_line, print_json


async def run(arguments: argparse.Namespace) -> int:
    """Accept one candidate, named by its id or the beginning of it."""
    async with opened_stores() as stores:
        caller = operator(stores, arguments.tenant)
        async with tenant_transaction(stores.pool, caller.tenant, deadline_seconds=DEADLINE_SECONDS) as tx:
            item = await find_item(tx, arguments.item)
        asked = {"scope": item["scope"], "id": item["id"], "reason": arguments.reason}
        accepted = await accept(decode(AcceptKnowledge, asked, "accept").message, caller, stores)
    if arguments.json:
        print_json(encode(accepted))
    else:
        print(f"{accepted.id} is accepted (revision {accepted.revision}): {one_line(item['title'])}")
    return 0
