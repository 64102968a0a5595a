"""`poimen run`: start a definition, wait for it, and show what its steps came to."""

import argparse
import asyncio
import re
import secrets
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic_core import PydanticCustomError
from temporalio import exceptions
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import TypedSearchAttributes
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError

from poimen.contracts.definition import WorkflowDef
from poimen.contracts.message import check_identifier, decode, encode
from poimen.contracts.problems import InvalidInput, Problem, counted
from poimen.contracts.run_io import HarnessRunResult, StartHarnessRun
from worker.cli.how_ended import with_first_causes
from worker.cli.output import one_line, print_json
from worker.cli.run_table import run_table
from worker.definitions import load_definition
from worker.exits import DEPENDENCY_DOWN, FAILED, OK, USAGE, ExitError, is_away
from worker.found_stack import load_settings
from worker.settings import Settings
from worker.temporal_client import connect, count_pollers
from workflows.step_ports import scope_attributes

_LONGEST_ID = 1_000
_NOT_PLAIN = re.compile(r"[^\w.-]+")
_ENDS = {
    exceptions.CancelledError: "was cancelled",
    exceptions.TerminatedError: "was terminated",
    exceptions.TimeoutError: "timed out",
}


async def run(arguments: argparse.Namespace) -> int:
    """Start a HarnessRun; exit with 1 when it does not succeed."""
    definition = load_definition(arguments.file)
    workflow_id = _new_id(definition) if arguments.id is None else _checked_id(arguments.id)
    message = StartHarnessRun(
        definition=definition,
        memory=arguments.memory,
        workspace=_workspace(arguments.workspace),
        tenant=arguments.tenant,
    )
    settings = load_settings()
    client = await connect(settings, quiet=True)
    handle = await _start(client, settings, workflow_id, message)
    link = ui_link(settings, client.namespace, handle.id)
    if not arguments.json:
        print(f"{handle.id}  {link}" if link else handle.id, flush=True)
    if arguments.no_wait:
        if arguments.json:
            print_json({"workflow_id": handle.id, "run_id": handle.first_execution_run_id, "link": link})
        return OK
    try:
        await _warn_without_worker(client, settings)
        result = await with_first_causes(client, await _result(handle))
    except asyncio.CancelledError:
        print(f"The run goes on. To end it: temporal workflow cancel --workflow-id {handle.id}", file=sys.stderr)
        raise
    _show(result, definition, handle.id, link, as_json=arguments.json)
    return OK if result.end == "succeeded" else FAILED


def ui_link(settings: Settings, namespace: str, workflow_id: str) -> str | None:
    """Return the address of a workflow's page, None when no UI is known."""
    base = settings.values["ui_url"]
    if not base:
        return None
    return f"{base.rstrip('/')}/namespaces/{quote(namespace, safe='')}/workflows/{quote(workflow_id, safe='')}"


async def _start(
    client: Client, settings: Settings, workflow_id: str, message: StartHarnessRun
) -> WorkflowHandle[Any, dict[str, Any]]:
    definition = message.definition
    try:
        return await client.start_workflow(
            "HarnessRun",
            encode(message),
            id=workflow_id,
            task_queue=settings.task_queue,
            result_type=dict,
            static_summary=f"{definition.name} · memory {message.memory}"[:200],
            search_attributes=TypedSearchAttributes(scope_attributes(definition.scope, message.tenant)),
        )
    except WorkflowAlreadyStartedError:
        raise ExitError(f"{workflow_id} is running already; give another --id, or wait for it.") from None


async def _warn_without_worker(client: Client, settings: Settings) -> None:
    queue = settings.task_queue
    if not await count_pollers(client, queue, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW):
        print(f"Nobody polls queue {queue}; the run waits for a worker: poimen worker", file=sys.stderr)


async def _result(handle: WorkflowHandle[Any, dict[str, Any]]) -> HarnessRunResult:
    try:
        return decode(HarnessRunResult, await handle.result(), "HarnessRun").message
    except WorkflowFailureError as error:
        cause = error.cause
        if isinstance(cause, ApplicationError) and cause.type == "RunFailed" and cause.details:
            return decode(HarnessRunResult, cause.details[0], "HarnessRun").message
        raise _ended(handle.id, cause) from None
    except RPCError as error:
        if not is_away(error):
            raise
        raise ExitError(
            f"Temporal went away while this waited for {handle.id}; the run goes on once Temporal is back. "
            "`poimen runs` shows it then.",
            DEPENDENCY_DOWN,
        ) from None


def _ended(workflow_id: str, cause: BaseException) -> Exception:
    if isinstance(cause, ApplicationError) and cause.type == "InvalidInput":
        return InvalidInput(*_problems(cause)) if _problems(cause) else ExitError(cause.message, USAGE)
    how = next((words for kind, words in _ENDS.items() if isinstance(cause, kind)), f"failed: {cause}")
    return ExitError(f"{workflow_id} {how}.")


def _problems(refused: ApplicationError) -> list[Problem]:
    """Return what a worker refused, one problem each; nothing when another version put it differently."""
    found = refused.details[0] if refused.details else None
    places = found if isinstance(found, list) else []
    return [Problem(place["field"], place["reason"]) for place in places if {"field", "reason"} <= place.keys()]


def _show(
    result: HarnessRunResult, definition: WorkflowDef, workflow_id: str, link: str | None, *, as_json: bool
) -> None:
    if as_json:
        print_json({"workflow_id": workflow_id, "link": link, **encode(result)})
        return
    print(run_table(definition, result.steps))
    print(f"{result.end}: {one_line(result.reason, 200)}")
    for warning in result.warnings:
        print(f"warning: {one_line(warning, 200)}")
    if result.undelivered_records:
        print(f"Kept to be delivered when memory is back: {counted(result.undelivered_records, 'record')}.")


def _workspace(given: str | None) -> str | None:
    """Return an absolute path for a folder that is here, and the text as it is for one of a remote executor."""
    if given is None:
        return None
    path = Path(given)
    if path.is_dir():
        return str(path.absolute())
    print(
        f"--workspace {one_line(given)} is no folder here; the executor looks for it below its roots.", file=sys.stderr
    )
    return given


def _checked_id(given: str) -> str:
    try:
        return check_identifier(given, _LONGEST_ID)
    except PydanticCustomError as refused:
        raise ExitError(f"--id {(refused.context or {})['predicate']}.", USAGE) from None


def _new_id(definition: WorkflowDef) -> str:
    # No slash, so that RUN/STEP can be taken apart.
    name = _NOT_PLAIN.sub("-", definition.name).strip("-.") or "run"
    return f"{name}-{secrets.token_hex(3)}"
