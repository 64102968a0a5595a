"""`poimen rebuild --index`: build the index anew from what is on record, beside the live one."""

import argparse
import asyncio
import sys
from typing import Any, Final

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle, WorkflowQueryFailedError
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ActivityError, FailureError
from temporalio.service import RPCError

from poimen.contracts.problems import counted
from worker.bootstrap import rebuild_queue, rebuild_worker
from worker.cli.opened import opened_stores
from worker.cli.output import print_json
from worker.exits import ExitError
from worker.found_stack import load_settings
from worker.search_attributes import ensure_search_attributes
from worker.temporal_client import connect

_BETWEEN_LOOKS_SECONDS: Final = 0.5


async def run(arguments: argparse.Namespace) -> int:
    """Run a worker of its own for it, so that it works while other workers refuse to start on the former index.

    Ended in the middle, it goes on where it was when it is run again.
    """
    settings = load_settings()
    async with opened_stores(settings) as stores:
        client = await connect(settings, quiet=True)
        await ensure_search_attributes(client)
        tenants = [stores.settings.tenant_of(arguments.tenant)] if arguments.tenant else stores.settings.tenants
        async with rebuild_worker(settings, client, stores):
            results = [await _rebuilt(client, settings.task_queue, tenant, quiet=arguments.json) for tenant in tenants]
    if arguments.json:
        print_json(results)
    else:
        print("\n".join(_told(result) for result in results))
    return 0


async def _rebuilt(client: Client, task_queue: str, tenant: str, *, quiet: bool) -> dict[str, Any]:
    queue = rebuild_queue(task_queue)
    handle: WorkflowHandle[Any, dict[str, Any]] = await client.start_workflow(
        "ProjectJournal",
        {"tenant": tenant},
        id=f"{queue}/{tenant}",
        task_queue=queue,
        result_type=dict,
        # One that was left unfinished goes on, with the worker that runs here.
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        static_summary=f"index of {tenant}"[:200],
    )
    watching = None if quiet else asyncio.create_task(_watch(handle))
    try:
        return await handle.result()
    except WorkflowFailureError as error:
        cause = error.cause
        while isinstance(cause, ActivityError) and cause.cause is not None:
            cause = cause.cause
        said = cause.message if isinstance(cause, FailureError) else str(cause)
        raise ExitError(f"The index of {tenant} stays as it was. {said}") from None
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


async def _watch(handle: WorkflowHandle[Any, dict[str, Any]]) -> None:
    """Say on standard error how far it is, whenever that changes."""
    said = ""
    while True:
        try:
            progress = await handle.query("progress", result_type=dict)
        except (RPCError, WorkflowQueryFailedError):
            progress = None
        if progress and said != (now := f"{progress['stage']}: {progress['items']:,} items"):
            said = now
            print(said, file=sys.stderr, flush=True)
        await asyncio.sleep(_BETWEEN_LOOKS_SECONDS)


def _told(result: dict[str, Any]) -> str:
    by = result["embedder"] or "words alone"
    told = f"{result['tenant']}: generation {result['generation']} of {result['index']} is live, made by {by}"
    failed = result["failed"]
    left = f"; {counted(failed, 'item')} did not go in: {', '.join(result['failed_ids'])}" if failed else ""
    kept = f"; generation {result['kept']} is kept" if result["kept"] is not None else ""
    return f"{told}, {counted(result['items'], 'item')}{kept}{left}"
