"""`poimen retire`: take a wrong item out of what is delivered."""

import argparse

from memory.items import find_item
from memory.knowledge import retire
from memory.postgres import tenant_transaction
from poimen.contracts.memory_calls import RetireKnowledge
from poimen.contracts.message import decode, encode
from worker.cli.opened import DEADLINE_SECONDS, opened_stores, operator
from worker.cli.output import one_line, print_json


async def run(arguments: argparse.Namespace) -> int:
    """Retire one item, named by its id or the beginning of it."""
    async with opened_stores() as stores:
        caller = operator(stores, arguments.tenant)
        async with tenant_transaction(stores.pool, caller.tenant, deadline_seconds=DEADLINE_SECONDS) as tx:
            item = await find_item(tx, arguments.item)
        asked = {"scope": item["scope"], "id": item["id"], "reason": arguments.reason}
        retired = await retire(decode(RetireKnowledge, asked, "retire").message, caller, stores)
    if arguments.json:
        print_json(encode(retired))
    else:
        print(f"{retired.id} is retired (revision {retired.revision}): {one_line(item['title'])}")
    return 0
