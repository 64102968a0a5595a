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
        print(_told(explanation))
    return 0


def _told(explanation: Explanation) -> str:
    text = plain(explanation.text)
    if explanation.steps:
        return text
    # What is decided of a run comes after its steps, so none will follow.
    none = "No step of this run is on record." if explanation.decisions else "No step of this run is on record yet."
    return f"{none}\n{text}" if text else none


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
