"""`poimen runs`: the latest runs and how they ended."""

import argparse
import asyncio
from datetime import UTC, datetime
from typing import Any

from temporalio import exceptions
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionStatus,
    WorkflowHistoryEventFilterType,
)

from poimen.contracts.message import decode
from poimen.contracts.problems import InvalidInput
from poimen.contracts.run_io import HarnessRunResult
from worker.cli.output import ago, one_line, print_json, table
from worker.cli.run import ui_link
from worker.found_stack import load_settings
from worker.temporal_client import connect


async def run(arguments: argparse.Namespace) -> int:
    """List them from Temporal, so that runs show which memory never heard of."""
    settings = load_settings()
    client = await connect(settings, quiet=True)
    found = [one async for one in client.list_workflows('WorkflowType = "HarnessRun"', limit=arguments.limit)]
    runs = await asyncio.gather(*(_described(client, one) for one in found))
    if arguments.json:
        print_json([{**known, "link": ui_link(settings, client.namespace, known["workflow_id"])} for known in runs])
    elif runs:
        rows = [_row(known) for known in runs]
        print(table(("run", "end", "attempts", "seconds", "started", "reason"), rows, right=(2, 3)))
    else:
        print("No run yet. Start one: poimen run FILE")
    return 0


async def _described(client: Client, found: WorkflowExecution) -> dict[str, Any]:
    known: dict[str, Any] = {
        "workflow_id": found.id,
        "run_id": found.run_id,
        "started_at": found.start_time.isoformat(),
        "end": _word(found.status),
        "attempts": None,
        "seconds": ((found.close_time or datetime.now(UTC)) - found.start_time).total_seconds(),
        "reason": "",
    }
    result = await _result(client, found)
    if isinstance(result, HarnessRunResult):
        known |= {"end": result.end, "attempts": result.attempts, "seconds": result.seconds, "reason": result.reason}
    elif result is not None:
        known["reason"] = result
    return known


def _word(status: WorkflowExecutionStatus | None) -> str:
    return (status.name if status else "unknown").lower().replace("_", " ")


async def _result(client: Client, found: WorkflowExecution) -> HarnessRunResult | str | None:
    """Return how a run ended by its last event: the result, or what there is of a reason."""
    if found.status == WorkflowExecutionStatus.RUNNING:
        return None
    handle = client.get_workflow_handle(found.id, run_id=found.run_id)
    converter = client.data_converter
    async for event in handle.fetch_history_events(event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT):
        completed = event.workflow_execution_completed_event_attributes
        if completed.result.payloads:
            return _decoded((await converter.decode(completed.result.payloads))[0])
        failed = event.workflow_execution_failed_event_attributes
        if failed.HasField("failure"):
            error = await converter.decode_failure(failed.failure)
            details = error.details if isinstance(error, exceptions.ApplicationError) else ()
            return (_decoded(details[0]) if details else None) or str(error)
        return event.workflow_execution_terminated_event_attributes.reason or None
    return None


def _decoded(value: Any) -> HarnessRunResult | None:
    try:
        return decode(HarnessRunResult, value if isinstance(value, dict) else b"", "HarnessRun").message
    except InvalidInput:
        return None


def _row(known: dict[str, Any]) -> tuple[str, ...]:
    age = datetime.now(UTC) - datetime.fromisoformat(known["started_at"])
    return (
        known["workflow_id"],
        known["end"],
        "" if known["attempts"] is None else str(known["attempts"]),
        f"{known['seconds']:.1f}",
        ago(age.total_seconds()),
        one_line(known["reason"], 60),
    )
