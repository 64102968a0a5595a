"""`poimen runs`: the latest runs and how they ended."""

import argparse
import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import Any, Final

from temporalio.client import Client, WorkflowExecution

from worker.cli.how_ended import RUN, STEP, how_ended, is_reset
from worker.cli.output import ago, one_line, print_json, table
from worker.cli.run import ui_link
from worker.found_stack import load_settings
from worker.temporal_client import connect

# A step that somebody started by itself is a run of one step; an execution that continues is told by the one after it.
QUERY: Final = (
    f'(WorkflowType = "{RUN}" OR (WorkflowType = "{STEP}" AND ParentWorkflowId IS NULL))'
    ' AND ExecutionStatus != "ContinuedAsNew"'
)


async def run(arguments: argparse.Namespace) -> int:
    """List them from Temporal, so that runs show which memory never heard of."""
    settings = load_settings()
    client = await connect(settings, quiet=True)
    found = [one async for one in client.list_workflows(QUERY, limit=arguments.limit)]
    # Only where an id was used again can a reset be meant.
    shared = {name for name, times in Counter(one.id for one in found).items() if times > 1}
    runs = await asyncio.gather(*(_described(client, one, shared=one.id in shared) for one in found))
    if arguments.json:
        print_json([{**known, "link": ui_link(settings, client.namespace, known["workflow_id"])} for known in runs])
    elif runs:
        print(_table(runs, shared))
    else:
        print("No run yet. Start one: poimen run FILE")
    return 0


async def _described(client: Client, found: WorkflowExecution, *, shared: bool) -> dict[str, Any]:
    ended = await how_ended(client, found)
    spent = ((found.close_time or datetime.now(UTC)) - found.start_time).total_seconds()
    return {
        "workflow_id": found.id,
        "run_id": found.run_id,
        "kind": "run" if found.workflow_type == RUN else "step",
        "reset": shared and await is_reset(client, found),
        "started_at": found.start_time.isoformat(),
        "end": ended.end,
        "attempts": ended.attempts,
        "seconds": spent if ended.seconds is None else ended.seconds,
        "reason": ended.reason,
    }


def _table(runs: list[dict[str, Any]], shared: set[str]) -> str:
    """Lay the runs out; those that share a workflow id are told apart by the run id."""
    heads = ["run", "end", "attempts", "seconds", "started", *(["run id"] if shared else []), "reason"]
    return table(heads, [_row(known, shared) for known in runs], right=(2, 3))


def _row(known: dict[str, Any], shared: set[str]) -> list[str]:
    age = datetime.now(UTC) - datetime.fromisoformat(known["started_at"])
    run_id = [known["run_id"] if known["workflow_id"] in shared else ""] if shared else []
    return [
        one_line(known["workflow_id"]) + "".join(f" ({word})" for word in _remarks(known)),
        known["end"],
        str(known["attempts"]),
        f"{known['seconds']:.1f}",
        ago(age.total_seconds()),
        *run_id,
        one_line(known["reason"], 60),
    ]


def _remarks(known: dict[str, Any]) -> list[str]:
    return [*(["a step alone"] if known["kind"] == "step" else []), *(["reset"] if known["reset"] else [])]
