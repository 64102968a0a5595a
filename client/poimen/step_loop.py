"""One step execution: recall, prevent, attempt, analyse, next move, document. Order only; every effect is a port."""

import asyncio
from collections.abc import Awaitable
from datetime import datetime
from typing import Literal, Protocol

from poimen.contracts.memory_calls import AppliedAction, Prevention
from poimen.contracts.run_io import StepResult
from poimen.contracts.vocabulary import StepEnd
from poimen.excerpts import cut_tail
from poimen.memory_link import MemoryLink
from poimen.render import render
from poimen.step_messages import ask_for_context, document_end, tell_failure, tell_success
from poimen.step_rules import Move, StepPolicy, budget_end, next_move, readable
from poimen.step_state import AttemptReport, AttemptWork, Progress, StepSpec, StepState

LAST_WORDS_BYTES = 2 * 1024
# What a step does while its attempt is made.
RUNNING = "running"


class StepPorts(Protocol):
    """Every effect a step has."""

    def now(self) -> datetime:
        """Return the present instant."""

    def bounds(self, policy: StepPolicy) -> StepPolicy:
        """Return the step's bounds as they are now; a budget shared with others may have shrunk."""

    def attempt(self, work: AttemptWork) -> Awaitable[AttemptReport]:
        """Make one attempt, verification and judgement included."""

    def repair(self, repair: str, attempt: int) -> Awaitable[int | None]:
        """Run a declared repair before ``attempt``; return its exit status, None if it did not run."""

    def wait(self, seconds: float, why: str) -> Awaitable[None]:
        """Let time pass."""

    def show(self, progress: Progress) -> None:
        """Tell people where the step is."""


async def run_step(spec: StepSpec, ports: StepPorts, memory: MemoryLink) -> StepResult:
    """Run a step to its end and document it, whatever that end is.

    Cancellation is documented as well, and raised again.
    """
    step = StepLoop(StepState(spec, ports.now(), spec.policy), ports, memory)
    try:
        move = await step.run()
    except asyncio.CancelledError:
        await step.finish("cancelled", step.cancelled())
        raise
    return await step.finish(move.end or "failed", move.reason)


class StepLoop:
    """The parts of a step execution in the order ``run`` calls them; a handle calls them one by one."""

    def __init__(self, state: StepState, ports: StepPorts, memory: MemoryLink) -> None:
        self.state, self.ports, self.memory = state, ports, memory
        self.mode = state.spec.memory
        # Where the step is: in an attempt, before one that is due, or after one of which nothing has followed yet.
        self._attempting, self._due = False, True

    async def run(self) -> Move:
        """Attempt the step until a move ends it."""
        while True:
            self.state.policy = self.ports.bounds(self.state.spec.policy)
            exhausted = budget_end(self.state.policy, self.state.spent_at(self.ports.now()))
            if exhausted is not None:
                return exhausted
            await self.recall()
            await self.prevent()
            report = await self._attempt()
            if report.outcome == "succeeded":
                return await self.succeeded(report)
            move = await self.failed(report)
            if move.end is not None:
                return move
            await self.apply(move)

    async def finish(self, end: StepEnd, reason: str) -> StepResult:
        """Document the end and return the result."""
        state, memory = self.state, self.memory
        if self.mode != "off":
            await memory.document(document_end(state, end, reason, self.ports.now()), "document")
        self._show("ended", end=end, reason=reason)
        return StepResult(
            step=state.spec.step,
            visit=state.spec.visit,
            end=end,
            reason=reason,
            attempts=state.records(),
            attempts_made=state.spent.attempts,
            prevention=state.prevention,
            output=_output(state.last),
            seconds=state.seconds(self.ports.now()),
            tokens=state.spent.tokens,
            silent_until=memory.silent_until,
            undelivered_records=len(memory.pending) + memory.dropped,
        )

    async def recall(self) -> None:
        """Ask what is known before the next attempt."""
        self.state.package = None
        if self.mode != "on":
            return
        self._show("asking memory")
        call = ask_for_context(self.state, self.ports.now())
        self.state.package = await self.memory.recall(call, f"recall · attempt {call.attempt}")

    async def prevent(self) -> None:
        """Run the repair that memory wants before the first attempt, if its author allowed that."""
        package = self.state.package
        known = package.prevention if package and self.state.number == 1 else None
        spec = self.state.spec
        # Only what the author declared, and allowed before a failure, runs before one, whoever asks for it.
        if known is None or known.repair not in spec.preventable or known.repair not in spec.policy.repairs:
            return
        self.state.prevention = known.model_copy(update={"because": readable(known.because)})
        await self._repair(known.repair, "prevention")

    async def _attempt(self) -> AttemptReport:
        state, now = self.state, self.ports.now()
        self._show(RUNNING)
        context = render(state.workflow_context(now), state.package)
        self.begin()
        report = await self.ports.attempt(AttemptWork(state.number, context, state.left(now).time_seconds))
        self.count(report)
        return report

    def cancelled(self) -> str:
        """Say where a cancellation met the step."""
        number = self.state.number
        if self._attempting:
            return f"the step was cancelled during attempt {number}"
        return f"the step was cancelled {f'before attempt {number}' if self._due else f'after attempt {number - 1}'}"

    def begin(self) -> None:
        """Take note that an attempt is being made."""
        self._attempting = True

    def count(self, report: AttemptReport) -> None:
        """Take note that an attempt was made."""
        self._attempting = self._due = False
        self.state.last = report
        self.state.count(attempts=1, tokens=report.tokens)

    async def succeeded(self, report: AttemptReport) -> Move:
        """Tell memory of a success that was counted already; return the end it makes."""
        self.state.record(report, None, None)
        if self.mode != "off":
            call = tell_success(self.state, report)
            await self.memory.learn(call, f"learn · attempt {call.attempt}")
        reason = _success_reason(self.state.spent.attempts, self.state.prevention, self.state.applied)
        return Move("policy", reason, end="succeeded")

    async def failed(self, report: AttemptReport) -> Move:
        """Tell memory of a failure that was counted already; return what follows it."""
        state = self.state
        failed_at = self.ports.now()
        state.analysis = None
        if self.mode != "off":
            self._show("asking memory")
            call = tell_failure(state, report, failed_at)
            state.analysis = await self.memory.analyze(call, f"analyse · attempt {call.attempt}")
        advice = state.analysis.advice if state.analysis else None
        heard = advice if self.mode == "on" else None
        state.policy = self.ports.bounds(state.spec.policy)
        move = next_move(state.policy, state.spent_at(self.ports.now()), report.final, heard)
        self._due = move.end is None
        state.record(report, advice, move)
        state.first_failed_at.setdefault(state.signature, failed_at)
        return move

    async def apply(self, move: Move) -> None:
        """Wait or repair as the move says, before the next attempt."""
        if move.delay_seconds > 0:
            self._show(f"waiting {move.delay_seconds:g} s")
            await self.ports.wait(move.delay_seconds, move.reason)
            self.state.count(waits=1)
        if move.repair is not None:
            await self._repair(move.repair, "repair", move.delay_seconds)
            return
        self.state.applied = AppliedAction(
            kind="wait" if move.delay_seconds > 0 else "none",
            waited_seconds=move.delay_seconds,
            since_first_failure_seconds=self.state.since_first_failure(self.ports.now()),
        )

    async def _repair(self, repair: str, kind: Literal["repair", "prevention"], waited: float = 0.0) -> None:
        self._show(f"{kind}: {repair}")
        exit_code = await self.ports.repair(repair, self.state.number)
        self.state.count(repairs=(repair,))
        self.state.applied = AppliedAction(
            kind=kind,
            repair=repair,
            waited_seconds=waited,
            since_first_failure_seconds=self.state.since_first_failure(self.ports.now()),
            exit_code=exit_code,
        )

    def _show(self, activity: str, *, end: StepEnd | None = None, reason: str = "") -> None:
        state = self.state
        self.ports.show(
            Progress(
                spec=state.spec,
                attempts=tuple(state.attempts),
                package=state.package,
                analysis=state.analysis,
                prevention=state.prevention,
                left=state.left(self.ports.now()),
                activity=activity,
                silent=self.memory.silent,
                pending=len(self.memory.pending),
                refusal=self.memory.last_refusal,
                end=end,
                reason=reason,
            )
        )


def _output(last: AttemptReport | None) -> str:
    if last is None:
        return ""
    # What a step made is handed on; of a failure the last words do, the whole is on record.
    return last.output if last.outcome == "succeeded" else cut_tail(last.output, LAST_WORDS_BYTES)


def _success_reason(attempts: int, prevention: Prevention | None, applied: AppliedAction) -> str:
    if attempts == 1:
        return f"passed after {prevention.repair} ran first" if prevention else "passed"
    if applied.repair is not None:
        return f"passed, attempt {attempts}, after {applied.repair}"
    if applied.waited_seconds > 0:
        return f"passed, attempt {attempts}, after waiting {applied.waited_seconds:g} s"
    return f"passed, attempt {attempts}"
