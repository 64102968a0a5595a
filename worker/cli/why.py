"""`poimen why`: what memory knew, advised and why."""

import argparse

from pydantic import TypeAdapter

from memory.errors import NotFound
from memory.stores import Stores
from memory.why import Explanation, explain
from worker.cli.opened import opened_stores
from worker.cli.output import plain, print_json

_AS_JSON = TypeAdapter(Explanation)


async def run(arguments: argparse.Namespace) -> int:
    """Explain a run, or one of its steps."""
    async with opened_stores() as stores:
        tenant = stores.settings.tenant_of(arguments.tenant)
        explanation = await _explain(stores, tenant, arguments.run)
    if arguments.json:
        print_json(_AS_JSON.dump_python(explanation, mode="json"))
    else:
        print(plain(explanation.text) or "No step of this run is on record yet.")
    return 0


async def _explain(stores: Stores, tenant: str, asked: str) -> Explanation:
    """Take RUN/STEP apart; a workflow id may hold a slash itself."""
    run, slash, step = asked.rpartition("/")
    if not slash:
        return await explain(stores, tenant, asked)
    try:
        return await explain(stores, tenant, run, step)
    except NotFound as no_step:
        try:
            return await explain(stores, tenant, asked)
        except NotFound:
            raise no_step from None
