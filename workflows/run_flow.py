"""The order of a run: phases, steps in parallel where needs allow, gates, ways back, budgets."""

import asyncio
from collections.abc import Callable, Iterable

from temporalio import workflow
from temporalio.exceptions import FailureError
from temporalio.workflow import ChildWorkflowHandle

from poimen.contracts.definition import GoTo, OnFailure, Phase, Step
from poimen.contracts.memory_calls import DocumentDecision
from poimen.contracts.message import encode
from poimen.contracts.run_io import RunState, StartHarnessRun, StartHarnessStep, StepResult, StepSummary, StepTokens
from poimen.contracts.vocabulary import StepEnd
from poimen.memory_link import MemoryLink
from poimen.step_rules import readable
from workflows.attempts import WorkPlace, gate
from workflows.child_steps import child_id, run_child
from workflows.messages import to_the_end
from workflows.run_budget import RunBudget
from workflows.run_plan import RunPlan, WayBack
from workflows.run_records import RunEnd, RunIdentity, gate_decision, milestone

# Steps wait in their run's workflow, where people see them, not in an executor's queue.
MOST_PARALLEL = 16
# Each step of the largest definition once; a result and a continued run are payloads.
MOST_SUMMARIES = 500
_MOST_NAMED = 10
_MOST_WARNINGS = 10


class RunFlow:
    """Runs a definition from where its state says to its end, or to a point where it may continue as new."""

    def __init__(
        self,
        start: StartHarnessRun,
        who: RunIdentity,
        place: WorkPlace,
        memory: MemoryLink,
        show: Callable[[str], None],
    ) -> None:
        state = start.state or RunState()
        self.start, self.who, self.place, self.memory, self._show = start, who, place, memory, show
        self.plan = RunPlan(
            start.definition,
            state.phase,
            state.phase_visits,
            dict(state.done),
            dict(state.visits),
            dict(state.go_tos),
        )
        self.budget = RunBudget(
            state.budget or start.definition.budget,
            state.started_at or workflow.now(),
            state.attempts_spent,
            state.tokens_spent,
        )
        self.steps = list(state.steps)
        self.undelivered = state.undelivered_records
        self.warnings = state.warnings
        self.running: dict[str, asyncio.Task[StepResult]] = {}
        self.handles: dict[str, ChildWorkflowHandle[object, object]] = {}
        self._back: list[WayBack] = []
        # Whether a step has ended in this execution: one that continues at once would continue for ever.
        self._moved = False

    async def run(self) -> RunEnd | None:
        """Return how the run ended, or None when it should continue as new."""
        try:
            while (phase := self.plan.current) is not None:
                ended = await self._phase(phase)
                if ended is not None:
                    return ended
                if self._is_due():
                    return None
        except asyncio.CancelledError:
            await self._cancel_steps()
            raise
        return RunEnd("succeeded", _all_passed(self.plan.done))

    def state(self) -> RunState:
        """Return what a continued run needs."""
        return RunState(
            run=self.who.run,
            written_by=self.who.key,
            visits=self.plan.visits,
            go_tos=self.plan.go_tos,
            done=self.plan.done,
            phase=self.plan.phase,
            phase_visits=self.plan.phase_visits,
            attempts_spent=self.budget.attempts_spent,
            tokens_spent=self.budget.tokens_spent,
            budget=self.budget.limit,
            started_at=self.budget.started_at,
            branch=self.who.branch,
            silent_until=self.memory.silent_until,
            executor_queue=self.place.queue,
            environment=self.who.environment,
            steps=tuple(self.steps[-MOST_SUMMARIES:]),
            undelivered_records=self.undelivered,
            warnings=self.warnings,
        )

    def warn(self, warnings: Iterable[str]) -> None:
        """Keep what did not go as asked, each once: what one step meets, most of them meet."""
        self.warnings = tuple(dict.fromkeys((*self.warnings, *warnings)))[:_MOST_WARNINGS]

    async def share_tokens(self, step: str, tokens: int) -> None:
        """Take a running step's report; tell each step whose limit this makes matter what it may use in all."""
        self.budget.reported[step] = tokens
        for name, handle in list(self.handles.items()):
            limit = self.budget.tokens_news(name)
            if limit is not None:
                try:
                    await handle.signal("tokens_left", encode(StepTokens(step=name, tokens=limit)))
                except FailureError:
                    workflow.logger.info("a step ended before it heard of its tokens")

    async def _phase(self, phase: Phase) -> RunEnd | None:
        self._back = []
        self._show(f"phase {phase.id}")
        ended = await self._settle_steps()
        if ended is not None:
            return ended
        if not self._back:
            if self._is_due() and self.plan.ready(set()):
                # The continued run starts the rest of the phase.
                return None
            ended = await self._gate(phase)
        if ended is not None or self._back:
            return ended or self._go_back()
        await self._document(milestone(self.start, self.who, phase.id, self.plan.phase_visits + 1))
        self.plan.phase += 1
        self.plan.phase_visits += 1
        return None

    async def _settle_steps(self) -> RunEnd | None:
        ended: RunEnd | None = None
        while True:
            # Nothing new is started once a continue-as-new is due, so that it comes at a quiet point.
            if ended is None and not self._back and not self._is_due():
                ended = self._start_ready()
            if not self.running:
                return ended
            await workflow.wait(list(self.running.values()), return_when=asyncio.FIRST_COMPLETED)
            for name in [name for name, task in self.running.items() if task.done()]:
                ended = self._settled(name, self.running.pop(name).result()) or ended

    def _is_due(self) -> bool:
        return self._moved and workflow.info().is_continue_as_new_suggested()

    def _start_ready(self) -> RunEnd | None:
        for step in self.plan.ready(set(self.running)):
            if len(self.running) >= MOST_PARALLEL:
                return None
            spent = self.budget.exhausted(workflow.now())
            if spent is not None:
                return RunEnd("exhausted", f"{spent}; {step.id} was not started")
            retry = step.retry or self.start.definition.retry
            if not self.budget.lease(step.id, retry.attempts):
                return None if self.running else RunEnd("exhausted", f"no attempts are left for {step.id}")
            self.running[step.id] = asyncio.create_task(self._step(step, self.plan.visit(step.id)))
        return None

    async def _step(self, step: Step, visit: int) -> StepResult:
        phase = self.plan.current
        message = StartHarnessStep(
            scope=self.start.definition.scope,
            step=step,
            tenant=self.start.tenant,
            run=self.who.run,
            branch=self.who.branch,
            phase=phase.id if phase else None,
            visit=visit,
            retry=self.start.definition.retry,
            memory=self.start.memory,
            workspace=self.place.workspace,
            definition_hash=self.who.definition_hash,
            executor_queue=self.place.queue,
            environment=self.who.environment,
            budget_left=self.budget.for_step(step.id, workflow.now()),
            deadline_at=self.budget.deadline,
            silent_until=self.memory.silent_until,
            least_confidence=self.start.least_confidence,
            # Only a shared token budget makes a step's spending everybody's business.
            reports_tokens=self.start.definition.budget.tokens is not None,
        )
        return await run_child(message, self.handles)

    def _settled(self, name: str, result: StepResult) -> RunEnd | None:
        phase = self.plan.current
        assert phase is not None
        step = next(step for step in phase.steps if step.id == name)
        self.budget.settle(name, result.attempts_made, result.tokens)
        self.undelivered += result.undelivered_records
        self.warn(result.warnings)
        self.memory.silent_until = result.silent_until or self.memory.silent_until
        self.plan.done[name] = result.end
        self._moved = True
        self.steps.append(_summary(result, phase.id, child_id(name, result.visit)))
        self._show(f"phase {phase.id}")
        if result.end == "succeeded":
            return None
        spent = self.budget.exhausted(workflow.now()) if result.end == "exhausted" else None
        if spent is not None:
            return RunEnd("exhausted", f"{spent}; step {name}: {result.reason}")
        return self._after_failure(step.on_failure, f"step:{name}", f"Step {name}: {result.reason}", name)

    def _after_failure(self, rule: OnFailure, source: str, reason: str, failed: str | None) -> RunEnd | None:
        if rule == "skip":
            return None
        if isinstance(rule, GoTo):
            self._back.append(WayBack(source, rule, failed, reason))
            return None
        return RunEnd("failed", reason)

    def _go_back(self) -> RunEnd | None:
        self.plan.phase_visits += 1
        # Steps side by side may each ask for a way back: all are gone, or the run ends.
        used_up = self.plan.go_back(self._back)
        if used_up is None:
            return None
        way = used_up.way
        times = f"{way.at_most} time{'' if way.at_most == 1 else 's'}"
        return RunEnd("failed", f"{used_up.reason}; it went back to {way.go_to} {times} already")

    async def _gate(self, phase: Phase) -> RunEnd | None:
        body = phase.gate
        if body is None:
            return None
        visit = self.plan.phase_visits + 1
        left = self.budget.left(workflow.now()).time_seconds
        report = await gate(body, phase.id, visit, self.place, left)
        self.budget.spend(report.tokens)
        failure = None if report.outcome == "succeeded" else _last_line(report.error)
        await self._document(gate_decision(self.start, self.who, phase.id, visit, failure))
        if failure is None:
            return None
        if report.source == "budget":
            return RunEnd("exhausted", f"the run's time budget ended in the gate of {phase.id}")
        reason = f"Gate of {phase.id} failed: {failure}"
        return self._after_failure(body.on_failure, f"gate:{phase.id}", reason, None)

    async def _document(self, decision: DocumentDecision) -> None:
        if self.start.memory == "off":
            return
        # A cancel in the middle would lose the record: it is raised once the record is written, or kept for later.
        _, cancelled = await to_the_end(self.memory.document(decision, "document"))
        if cancelled:
            raise asyncio.CancelledError

    async def _cancel_steps(self) -> None:
        for task in self.running.values():
            task.cancel()
        if self.running:
            await workflow.wait(list(self.running.values()))
        for name in list(self.running):
            task = self.running.pop(name)
            if not task.cancelled() and task.exception() is None:
                self._settled(name, task.result())


def _summary(result: StepResult, phase: str, workflow_id: str) -> StepSummary:
    return StepSummary(
        step=result.step,
        phase=phase,
        visit=result.visit,
        end=result.end,
        attempts=result.attempts_made,
        seconds=result.seconds,
        tokens=result.tokens,
        reason=result.reason,
        prevented_by=result.prevention.repair if result.prevention else None,
        workflow_id=workflow_id,
        failure=_failure(result),
    )


def _failure(result: StepResult) -> str:
    last = result.attempts[-1] if result.attempts and result.end != "succeeded" else None
    return last.title or "" if last is not None else ""


def _all_passed(done: dict[str, StepEnd]) -> str:
    passed = sum(end == "succeeded" for end in done.values())
    skipped = [step for step, end in done.items() if end != "succeeded"]
    more = f" and {len(skipped) - _MOST_NAMED} more" if len(skipped) > _MOST_NAMED else ""
    named = f"; skipped {', '.join(skipped[:_MOST_NAMED])}{more}" if skipped else ""
    return f"{passed} of {len(done)} steps passed{named}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return readable(lines[-1]) if lines else "no output"
