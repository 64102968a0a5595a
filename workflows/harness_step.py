"""HarnessStep: one step of a harness, usable alone. Order and time only."""

from collections.abc import Awaitable, Callable
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from poimen.contracts.execution import ClaimExecutor
    from poimen.contracts.message import encode
    from poimen.contracts.problems import InvalidInput
    from poimen.contracts.run_io import StartHarnessStep, StepResult, StepTokens
    from poimen.details import step_details
    from poimen.entry import EMPTY, one_argument, read_input, refuse
    from poimen.memory_link import MemoryLink
    from poimen.step_loop import run_step
    from poimen.step_messages import check_spec
    from poimen.temporal_memory import TemporalMemory

from workflows.attempts import WorkPlace
from workflows.delivery import deliver_later
from workflows.executor_calls import CallFailure, claim
from workflows.messages import accept, ended_badly, refusal, refuse_long_id, to_the_end
from workflows.step_ports import WorkflowStepPorts
from workflows.step_specs import needs_executor, run_of, step_deadline, step_spec


@workflow.defn(name="HarnessStep")
class HarnessStep:
    """Runs a step under memory until it passes, is stopped, or its bounds are used up.

    A step that does not pass fails the workflow with a ``StepFailed`` error whose message is the reason and whose
    detail is the ``StepResult``.
    """

    def __init__(self) -> None:
        self._ports: WorkflowStepPorts | None = None
        self._tokens_limit: int | None = None

    @workflow.run
    @one_argument
    async def run(self, raw: RawValue = EMPTY) -> dict[str, Any]:
        """Return the ``StepResult`` of a step that passed."""
        accepted = accept(raw, StartHarnessStep, "HarnessStep")
        start = accepted.message
        refuse_long_id("HarnessStep", 0)
        memory = MemoryLink(TemporalMemory(workflow.info().task_queue), silent_until=start.silent_until)
        try:
            result = await self._step(start, memory)
        finally:
            if memory.pending:
                # A cancel in the middle would lose the records, and the step has come to its end already.
                await to_the_end(deliver_later(memory.pending, workflow.info().task_queue))
        result = result.model_copy(update={"warnings": (*accepted.warnings, *refusal(memory))})
        if result.end != "succeeded":
            raise ended_badly(f"Step {result.step}: {result.reason}", result, "StepFailed")
        return encode(result)

    @workflow.query(description="Where the step is: attempts so far, what memory said, what is left. As markdown.")
    def details(self) -> str:
        """Return the step's page."""
        known = self._ports.progress if self._ports else None
        return step_details(known) if known else "not started"

    @workflow.query(description="The attempts so far, as JSON.")
    def attempts(self) -> list[dict[str, Any]]:
        """Return the attempt records."""
        known = self._ports.progress if self._ports else None
        return [encode(record) for record in known.attempts] if known else []

    @workflow.signal(description="Sent by the step's run: what a shared token budget leaves to this step in all.")
    @one_argument
    def tokens_left(self, raw: RawValue = EMPTY) -> None:
        """Take the step's new token limit; an unreadable signal is ignored, it could only loop."""
        try:
            limit = read_input(raw, StepTokens, "tokens_left").message.tokens
        except InvalidInput:
            workflow.logger.warning("tokens_left ignored: unreadable")
            return
        # It may come in the very task that starts the step.
        self._tokens_limit = limit

    async def _step(self, start: StartHarnessStep, memory: MemoryLink) -> StepResult:
        spec = step_spec(start, workflow.info(), workflow.now())
        try:
            check_spec(spec)
        except InvalidInput as error:
            raise refuse(error) from None
        self._ports = WorkflowStepPorts(
            start.step, lambda: _place(start), step_deadline(spec, workflow.now()), lambda: self._tokens_limit
        )
        if start.reports_tokens:
            self._ports.on_tokens = _reporter(start.step.id)
        return await run_step(spec, self._ports, memory)


async def _place(start: StartHarnessStep) -> WorkPlace:
    info = workflow.info()
    run = run_of(info, start.run)
    if start.executor_queue is not None or not needs_executor(start.step):
        return WorkPlace(run, start.executor_queue or info.task_queue, start.workspace, tenant=start.tenant)
    claimed = await claim(ClaimExecutor(run=run, workspace=start.workspace))
    if isinstance(claimed, CallFailure):
        return WorkPlace(run, info.task_queue, start.workspace, unavailable=claimed.error)
    return WorkPlace(run, claimed.queue, start.workspace, tenant=start.tenant)


def _reporter(step: str) -> Callable[[int], Awaitable[None]]:
    async def report(tokens: int) -> None:
        parent = workflow.info().parent
        if parent is None:
            return
        run = workflow.get_external_workflow_handle(parent.workflow_id, run_id=parent.run_id)
        try:
            await run.signal("step_spent", encode(StepTokens(step=step, tokens=tokens)))
        except FailureError:
            # A run that is gone shares no budget any more.
            workflow.logger.info("the run no longer takes token reports")

    return report
