"""Steps of a run as child workflows: started under a readable id, read back whatever their end."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import TypedSearchAttributes
from temporalio.exceptions import (
    ChildWorkflowError,
    FailureError,
    TerminatedError,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)
from temporalio.workflow import ChildWorkflowHandle

from poimen.contracts.message import decode, encode
from poimen.contracts.problems import InvalidInput
from poimen.contracts.run_io import StartHarnessStep, StepResult
from poimen.contracts.vocabulary import StepEnd
from poimen.step_rules import readable
from workflows.messages import detail_of
from workflows.step_ports import scope_attributes

# A step of a former execution may still be ending under the same id or, after a reset, still run: then it is cancelled.
# It gets these seconds to stop its command and to document its end.
_WAITS = (1, 2, 4, 8, 15)
# A step ends itself at its deadline; this much later, the server ends one that cannot.
_PAST_DEADLINE = timedelta(hours=1)


def child_id(step: str, visit: int) -> str:
    """Name a step's workflow after its run: RUN/STEP, and RUN/STEP/VISIT when it is visited again."""
    base = f"{workflow.info().workflow_id}/{step}"
    return base if visit == 1 else f"{base}/{visit}"


async def run_child(message: StartHarnessStep, handles: dict[str, ChildWorkflowHandle[object, object]]) -> StepResult:
    """Run a step to its end; one that was cancelled, terminated or never started gets a result as well.

    While it runs its handle is in ``handles`` under the step's id.
    """
    try:
        handle = await _start(message)
    except WorkflowAlreadyStartedError:
        return _ended(message, "interrupted", "another workflow is running under the step's id")
    handles[message.step.id] = handle
    try:
        answer = await handle
    except ChildWorkflowError as error:
        known = detail_of(error.cause, "StepFailed")
        return _read(known, message) if known else _without_result(error, message)
    finally:
        handles.pop(message.step.id, None)
    return _read(answer, message)


async def _start(message: StartHarnessStep) -> ChildWorkflowHandle[object, object]:
    for wait in (*_WAITS, None):
        try:
            return await _start_once(message)
        except WorkflowAlreadyStartedError:
            if wait is None:
                raise
            if _is_reset():
                await _cancel_former(child_id(message.step.id, message.visit))
            await workflow.sleep(wait, summary="the former execution of this step is ending")
    raise AssertionError  # because the loop returns or raises


async def _start_once(message: StartHarnessStep) -> ChildWorkflowHandle[object, object]:
    return await workflow.start_child_workflow(
        "HarnessStep",
        encode(message),
        id=child_id(message.step.id, message.visit),
        execution_timeout=_limit(message),
        # A run that is terminated still lets its steps stop their commands and document their end.
        parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
        cancellation_type=workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
        static_summary=f"{message.step.id} · {message.step.tool}"[:200],
        search_attributes=TypedSearchAttributes(scope_attributes(message.scope, message.tenant)),
    )


def _is_reset() -> bool:
    # Only then is a workflow that runs under a step's id surely this run's own, and may be cancelled.
    info = workflow.info()
    return info.run_id != info.original_execution_run_id


async def _cancel_former(step_id: str) -> None:
    try:
        await workflow.get_external_workflow_handle(step_id).cancel()
    except FailureError:
        workflow.logger.info("the former execution of the step has ended")


def _limit(message: StartHarnessStep) -> timedelta | None:
    if message.deadline_at is None:
        return None
    return max(message.deadline_at - workflow.now(), timedelta()) + _PAST_DEADLINE


def _read(answer: object, message: StartHarnessStep) -> StepResult:
    try:
        return decode(StepResult, answer if isinstance(answer, dict) else b"", "HarnessStep").message
    except InvalidInput as error:
        reason = readable(f"the step's result cannot be read: {error}")
        return _ended(message, "interrupted", reason, attempts=1)


def _without_result(error: ChildWorkflowError, message: StartHarnessStep) -> StepResult:
    # It was started and cannot say what it did: one attempt is the least that may have been made.
    if is_cancelled_exception(error):
        return _ended(message, "cancelled", "the step was cancelled", attempts=1)
    if isinstance(error.cause, TerminatedError):
        return _ended(message, "interrupted", "the step's workflow was terminated", attempts=1)
    reason = readable(f"the step's workflow ended without a result: {error.cause}")
    return _ended(message, "interrupted", reason, attempts=1)


def _ended(message: StartHarnessStep, end: StepEnd, reason: str, *, attempts: int = 0) -> StepResult:
    return StepResult(step=message.step.id, visit=message.visit, end=end, reason=reason, attempts_made=attempts)
