"""One run of the demonstration: start it, follow it, and read what each step came to."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import TypedSearchAttributes
from temporalio.exceptions import TimeoutError as TookTooLong
from temporalio.service import RPCError, RPCStatusCode

from poimen.contracts.definition import WorkflowDef
from poimen.contracts.message import decode, encode
from poimen.contracts.run_io import HarnessRunResult, StartHarnessRun, StepResult
from poimen.contracts.vocabulary import MemoryMode
from worker.exits import ExitError
from workflows.messages import detail_of
from workflows.step_ports import scope_attributes

_BETWEEN_LOOKS_SECONDS = 1.0
# A run takes some seconds; one that hangs is ended instead of being waited for.
LONGEST_RUN = timedelta(minutes=5)


@dataclass(frozen=True)
class DemoRun:
    """A run that has ended: its results by step, in the order the steps are declared."""

    name: str
    workflow_id: str
    memory: MemoryMode
    seconds: float
    steps: Mapping[str, StepResult] = field(repr=False)
    end: str = "succeeded"
    reason: str = ""

    @property
    def attempts(self) -> int:
        """Give the attempts of all steps."""
        return sum(result.attempts_made for result in self.steps.values())

    def comes_to(self) -> list[tuple[str, str, int]]:
        """Give what can be compared with another run: step, end and attempts."""
        return [(step, result.end, result.attempts_made) for step, result in self.steps.items()]


@dataclass(frozen=True)
class RunPlan:
    """What every run of a demonstration has in common: each has a workspace in the folder, and its name in its id."""

    client: Client
    queue: str
    definition: WorkflowDef
    folder: Path
    longest: timedelta = LONGEST_RUN


async def is_known(client: Client, workflow_id: str) -> bool:
    """Tell whether the history has a workflow of that id."""
    try:
        await client.get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return False
        raise
    return True


async def run_once(plan: RunPlan, name: str, memory: MemoryMode, look: Callable[[str], None] | None) -> DemoRun:
    """Run the definition in the workspace of that name and wait for its end; `look` is told where the run is.

    Raises ExitError when the run leaves no result.
    """
    message = StartHarnessRun(definition=plan.definition, memory=memory, workspace=str(plan.folder / name))
    handle: WorkflowHandle[Any, dict[str, Any]] = await plan.client.start_workflow(
        "HarnessRun",
        encode(message),
        id=f"{plan.folder.name}-{name}",
        task_queue=plan.queue,
        execution_timeout=plan.longest,
        result_type=dict,
        static_summary=f"{plan.definition.name} · memory {memory}",
        search_attributes=TypedSearchAttributes(scope_attributes(plan.definition.scope, None)),
    )
    looking = asyncio.create_task(_follow(plan.client, handle, look)) if look else None
    try:
        result = decode(HarnessRunResult, await _answer(handle, "RunFailed"), "HarnessRun").message
    except asyncio.CancelledError:
        # Else the next worker on this history would go on with it, without what ran beside it.
        with contextlib.suppress(RPCError):
            await handle.cancel()
        raise
    finally:
        if looking is not None:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
    found = {step.step: await _step(plan.client, str(step.workflow_id)) for step in result.steps}
    declared = [step.id for phase in plan.definition.phases for step in phase.steps]
    steps = {step: found[step] for step in declared if step in found}
    return DemoRun(name, handle.id, memory, result.seconds, steps, result.end, result.reason)


async def _step(client: Client, workflow_id: str) -> StepResult:
    handle = client.get_workflow_handle(workflow_id, result_type=dict)
    return decode(StepResult, await _answer(handle, "StepFailed"), "HarnessStep").message


async def _answer(handle: WorkflowHandle[Any, dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return the result of a workflow that says in its failure, too, what it came to."""
    try:
        return await handle.result()
    except WorkflowFailureError as error:
        answer = detail_of(error.cause, kind)
        if answer is None and isinstance(error.cause, TookTooLong):
            raise ExitError(
                f"{handle.id} did not end in time; its page in the Temporal UI and the worker's log say where it hangs."
            ) from None
        if answer is None:
            raise ExitError(f"{handle.id} left no result: {error.cause}") from None
        return answer


async def _follow(client: Client, handle: WorkflowHandle[Any, Any], look: Callable[[str], None]) -> None:
    """Tell every second which step is running and in which attempt."""
    while True:
        await asyncio.sleep(_BETWEEN_LOOKS_SECONDS)
        try:
            running = (await handle.query("progress"))["running"]
            if running:
                step = client.get_workflow_handle(f"{handle.id}/{running[0]}")
                look(f"{running[0]}, attempt {len(await step.query('attempts')) + 1}")
        except (RPCError, KeyError):
            continue  # between two steps there may be nobody to ask
