"""HarnessRun: a whole WorkflowDef. It ends with exactly one ``run_final`` record, whatever the end is."""

import asyncio
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

with workflow.unsafe.imports_passed_through():
    from poimen.contracts.canonical import definition_hash
    from poimen.contracts.execution import ClaimExecutor
    from poimen.contracts.message import encode
    from poimen.contracts.problems import InvalidInput
    from poimen.contracts.run_io import ExtendBudget, HarnessRunResult, RunState, StartHarnessRun, StepTokens
    from poimen.details import run_details
    from poimen.entry import EMPTY, one_argument, read_input, refuse
    from poimen.memory_link import MemoryLink
    from poimen.temporal_memory import TemporalMemory

from workflows.attempts import WorkPlace
from workflows.delivery import deliver_later
from workflows.executor_calls import CallFailure, claim, probes
from workflows.messages import accept, ended_badly, refusal, refuse_long_id, to_the_end
from workflows.run_flow import MOST_SUMMARIES, RunFlow
from workflows.run_records import RunEnd, RunIdentity, run_final, seconds_between
from workflows.step_ports import SCOPE, TENANT, keyword
from workflows.step_specs import branch_of, needs_executor, run_of


@workflow.defn(name="HarnessRun")
class HarnessRun:
    """Runs a definition's phases under memory.

    A run that does not succeed fails the workflow with a ``RunFailed`` error whose message is the reason and whose
    detail is the ``HarnessRunResult``.
    """

    def __init__(self) -> None:
        self._flow: RunFlow | None = None
        self._title = ""
        self._activity = "starting"
        self._deliveries = 0
        self._warnings: tuple[str, ...] = ()

    @workflow.run
    @one_argument
    async def run(self, raw: RawValue = EMPTY) -> dict[str, Any]:
        """Return the ``HarnessRunResult`` of a run that succeeded."""
        accepted = accept(raw, StartHarnessRun, "HarnessRun")
        self._warnings = accepted.warnings
        start = _of_this_run(accepted.message)
        steps = [step.id for phase in start.definition.phases for step in phase.steps]
        refuse_long_id("HarnessRun", max(len(step.encode()) for step in steps) + len("//100000"))
        self._title = start.definition.name
        memory = MemoryLink(TemporalMemory(workflow.info().task_queue))
        try:
            ended = await self._run(start, memory)
            if ended is None:
                await self._continue(start, memory)
                raise AssertionError  # because a run that continues as new does not return
        except asyncio.CancelledError:
            await to_the_end(self._finish(start, memory, RunEnd("cancelled", "the run was cancelled")))
            raise
        # A cancel that comes now is too late: the end is on its way into the record.
        result, _ = await to_the_end(self._finish(start, memory, ended))
        if result.end != "succeeded":
            raise ended_badly(result.reason, result, "RunFailed")
        return encode(result)

    @workflow.query(description="The run's steps, what each came to, and what is left. As markdown.")
    def details(self) -> str:
        """Return the run's page."""
        flow = self._flow
        if flow is None:
            return self._activity
        left = flow.budget.left(workflow.now())
        return run_details(self._title, self._activity, tuple(flow.steps), left, flow.warnings)

    @workflow.query(description="Steps done, steps running and budgets, as JSON.")
    def progress(self) -> dict[str, Any]:
        """Return where the run is."""
        flow = self._flow
        if flow is None:
            return {"steps": [], "running": [], "left": {}}
        return {
            "steps": [encode(step) for step in flow.steps],
            "running": sorted(flow.running),
            "left": encode(flow.budget.left(workflow.now())),
        }

    @workflow.update(
        description='Add to a running run\'s budget: {"attempts": 5, "tokens": 1000, "seconds": 60}. '
        "Steps that are already running keep their bounds; a budget without a limit stays so."
    )
    @one_argument
    async def extend_budget(self, raw: RawValue = EMPTY) -> dict[str, Any]:
        """Raise the run's limits and return what is left."""
        # An update may arrive in the very task that starts the run.
        await workflow.wait_condition(lambda: self._flow is not None)
        assert self._flow is not None
        more = read_input(raw, ExtendBudget, "extend_budget").message
        self._flow.budget.extend(attempts=more.attempts, tokens=more.tokens, seconds=more.seconds)
        return encode(self._flow.budget.left(workflow.now()))

    @extend_budget.validator
    @one_argument
    def _check_extension(self, raw: RawValue = EMPTY) -> None:
        try:
            read_input(raw, ExtendBudget, "extend_budget")
        except InvalidInput as error:
            raise refuse(error) from None

    @workflow.signal(description="Sent by the run's own steps: tokens used so far.")
    @one_argument
    async def step_spent(self, raw: RawValue = EMPTY) -> None:
        """Share a step's spending with the steps that run beside it."""
        try:
            spent = read_input(raw, StepTokens, "step_spent").message
        except InvalidInput:
            workflow.logger.warning("step_spent ignored: unreadable")
            return
        if self._flow is not None and spent.step in self._flow.running:
            await self._flow.share_tokens(spent.step, spent.tokens)

    async def _run(self, start: StartHarnessRun, memory: MemoryLink) -> RunEnd | None:
        state = start.state or RunState()
        memory.silent_until = state.silent_until
        _set_scope(start)
        who, place, problem = await _prepare(start, state)
        self._flow = RunFlow(start, who, place, memory, self._show)
        self._flow.warn(self._warnings)
        self._show("starting")
        return RunEnd("failed", problem) if problem else await self._flow.run()

    async def _finish(self, start: StartHarnessRun, memory: MemoryLink, ended: RunEnd) -> HarnessRunResult:
        flow, info = self._flow, workflow.info()
        who = flow.who if flow else _identity(start, start.state or RunState(), {})
        seconds = seconds_between(flow.budget.started_at if flow else info.start_time, workflow.now())
        tokens = flow.budget.tokens_spent if flow else 0
        if start.memory != "off":
            await memory.document(run_final(start, who, ended, seconds, tokens), "document")
        if flow:
            flow.warn(refusal(memory))
        self._show(f"{ended.end}: {ended.reason}")
        left_over = len(memory.pending) + memory.dropped
        await self._deliver(memory)
        return HarnessRunResult(
            run=who.run,
            end=ended.end,
            reason=ended.reason,
            definition_hash=who.definition_hash,
            # The latest: a result is a payload, and a long way back repeats steps.
            steps=tuple(flow.steps[-MOST_SUMMARIES:]) if flow else (),
            attempts=flow.budget.attempts_spent if flow else 0,
            tokens=tokens,
            seconds=seconds,
            memory=start.memory,
            undelivered_records=left_over + (flow.undelivered if flow else 0),
            warnings=flow.warnings if flow else self._warnings,
        )

    async def _continue(self, start: StartHarnessRun, memory: MemoryLink) -> None:
        assert self._flow is not None
        await workflow.wait_condition(workflow.all_handlers_finished)
        self._flow.undelivered += len(memory.pending) + memory.dropped
        memory.dropped = 0
        _, cancelled = await to_the_end(self._deliver(memory))
        if cancelled:
            raise asyncio.CancelledError
        workflow.continue_as_new(encode(start.model_copy(update={"state": self._flow.state()})))

    async def _deliver(self, memory: MemoryLink) -> None:
        if memory.pending:
            queue = workflow.info().task_queue
            self._deliveries = await deliver_later(memory.pending, queue, after=self._deliveries)

    def _show(self, activity: str) -> None:
        self._activity = activity
        workflow.set_current_details(self.details())


def _of_this_run(start: StartHarnessRun) -> StartHarnessRun:
    """Drop the state of another run: a cron schedule or a workflow retry starts again from the input it finds."""
    writer = start.state.written_by if start.state else None
    if writer is None or writer == workflow.info().continued_run_id:
        return start
    return start.model_copy(update={"state": None})


async def _prepare(start: StartHarnessRun, state: RunState) -> tuple[RunIdentity, WorkPlace, str | None]:
    """Claim an executor and gather the environment, once in the whole run."""
    info = workflow.info()
    run = run_of(info, state.run)
    if state.executor_queue is not None:
        return (
            _identity(start, state, state.environment),
            WorkPlace(run, state.executor_queue, start.workspace, tenant=start.tenant),
            None,
        )
    if not _uses_executor(start):
        return _identity(start, state, {}), WorkPlace(run, info.task_queue, start.workspace), None
    claimed = await claim(ClaimExecutor(run=run, workspace=start.workspace, environment=probes(start.definition)))
    if isinstance(claimed, CallFailure):
        place = WorkPlace(run, info.task_queue, start.workspace, unavailable=claimed.error)
        return _identity(start, state, {}), place, f"no executor for the run: {claimed.error}"
    return (
        _identity(start, state, claimed.environment),
        WorkPlace(run, claimed.queue, start.workspace, tenant=start.tenant),
        None,
    )


def _uses_executor(start: StartHarnessRun) -> bool:
    definition = start.definition
    gates = any(phase.gate is not None and phase.gate.activity is None for phase in definition.phases)
    steps = any(needs_executor(step) for phase in definition.phases for step in phase.steps)
    return gates or steps or bool(definition.environment)


def _identity(start: StartHarnessRun, state: RunState, environment: dict[str, str]) -> RunIdentity:
    info = workflow.info()
    return RunIdentity(
        run=run_of(info, state.run),
        key=info.run_id,
        branch=branch_of(info, state.branch),
        definition_hash=definition_hash(start.definition),
        environment=environment,
    )


def _set_scope(start: StartHarnessRun) -> None:
    updates = [SCOPE.value_set(keyword(start.definition.scope))]
    if start.tenant:
        updates.append(TENANT.value_set(keyword(start.tenant)))
    workflow.upsert_search_attributes(updates)
