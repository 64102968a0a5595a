"""Memory for a workflow of your own: two lines around an activity, or ``run_step`` for a verification in the loop."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from temporalio import exceptions, workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from poimen.contracts.execution import RenderedContext
from poimen.contracts.memory_calls import ContextPackage
from poimen.contracts.message import encode
from poimen.contracts.problems import InvalidInput, Problem
from poimen.contracts.run_io import DeliverRecordsInput, StepResult
from poimen.contracts.vocabulary import MemoryMode
from poimen.entry import refuse
from poimen.memory_link import MemoryLink
from poimen.record_batches import batches
from poimen.render import render
from poimen.step_loop import StepLoop, run_step
from poimen.step_messages import check_spec
from poimen.step_rules import LONGEST_WAIT, Move, StepPolicy
from poimen.step_state import AttemptReport, AttemptWork, Progress, StepSpec, StepState
from poimen.temporal_memory import TemporalMemory

_VISITS = "__poimen_visits__"

T = TypeVar("T")


class StepFailedError(ApplicationError):
    """A step that ended without success and without an exception of its own; ``result`` says how."""

    def __init__(self, result: StepResult) -> None:
        super().__init__(f"Step {result.step}: {result.reason}", encode(result), type="StepFailed", non_retryable=True)
        self.result = result


@dataclass(frozen=True)
class StepAttempt:
    """What an attempt of ``run_step`` is given."""

    number: int
    context: RenderedContext
    seconds_left: float | None


Attempt = Callable[[StepAttempt], Awaitable[T]]
# None or True passes, False fails, text fails and says why.
Verify = Callable[[T], Awaitable[bool | str | None]]
Repairs = Mapping[str, Callable[[], Awaitable[object]]]


class Memory:
    """The memory of one scope, as a workflow uses it.

    ``queue`` is where the memory worker polls. Memory never fails or stalls the caller: each call has one attempt of at
    most 1.5 s, and after a loss memory is left alone for 30 s.
    """

    def __init__(
        self,
        scope: str,
        *,
        tenant: str | None = None,
        queue: str = "poimen",
        mode: MemoryMode = "on",
        environment: Mapping[str, str] | None = None,
        run: str | None = None,
    ) -> None:
        self.scope, self.tenant, self.queue, self.mode = scope, tenant, queue, mode
        self.environment = dict(environment or {})
        self.run = run
        self.link = MemoryLink(TemporalMemory(queue))

    def step(self, name: str, *, phase: str | None = None, tool: str = "executor", task: str = "") -> "StepBlock":
        """Wrap the block that follows; its activities go through ``step.execute_activity``."""
        # Until an activity brings its retry policy, nothing bounds the block.
        return StepBlock(self, self.spec(name, StepPolicy(attempts=None), phase=phase, tool=tool, task=task))

    async def run_step(
        self,
        name: str,
        attempt: Attempt[T],
        *,
        verify: Verify[T] | None = None,
        policy: StepPolicy | None = None,
        repairs: Repairs | None = None,
        before: tuple[str, ...] = (),
        phase: str | None = None,
        tool: str = "executor",
        task: str = "",
    ) -> T:
        """Attempt, verify, learn and repair until the step passes; return what the passing attempt returned.

        Raises the last attempt's exception unchanged, or ``StepFailedError`` when a verification said no. ``repairs``
        are tried as memory advises, else in order; those named in ``before`` may also run before the first attempt.
        """
        known = dict(repairs or {})
        bounds = replace(policy or StepPolicy(), repairs=tuple(known))
        spec = self.spec(name, bounds, phase=phase, tool=tool, task=task, preventable=before)
        ports = _CallablePorts(attempt, verify, known)
        try:
            result = await run_step(spec, ports, self.link)
        finally:
            await self.deliver()
        if result.end == "succeeded":
            return ports.value()
        raise ports.raised or StepFailedError(result)

    def spec(self, step: str, policy: StepPolicy, **more: Any) -> StepSpec:
        """Name the next execution of a step: its visit rises each time it is asked for in this workflow.

        A name or a policy that no step can have fails the workflow with ``InvalidInput``.
        """
        info = workflow.info()
        spec = StepSpec(
            scope=self.scope,
            step=step,
            key=info.run_id,
            policy=policy,
            run=self.run or info.first_execution_run_id,
            branch=None if info.run_id == info.original_execution_run_id else info.run_id[:8],
            tenant=self.tenant,
            visit=_next_visit(self, step),
            environment=self.environment,
            memory=self.mode,
            **more,
        )
        _check(spec)
        return spec

    async def deliver(self) -> None:
        """Hand records that could not be written to an abandoned child on memory's queue."""
        pending, self.link.pending, self.link.dropped = self.link.pending, [], 0
        info = workflow.info()
        for number, records in enumerate(batches(pending), 1):
            await workflow.start_child_workflow(
                "DeliverRecords",
                encode(DeliverRecordsInput(records=tuple(records), queue=self.queue)),
                # A caller's own id may be as long as the server takes; the record names its workflow anyway.
                id=f"{info.workflow_id[:200]}/records/{info.run_id}/{workflow.uuid4().hex[:8]}-{number}",
                task_queue=self.queue,
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            )


class StepBlock:
    """One step execution around a block. Leaving it is success; an exception is failure and goes on unchanged."""

    def __init__(self, memory: Memory, spec: StepSpec) -> None:
        self._memory, self._ports = memory, _BlockPorts()
        self._loop = StepLoop(StepState(spec, workflow.now(), spec.policy), self._ports, memory.link)
        # The error that ended the block's latest activity, and the move that made it the end.
        self._ended: tuple[BaseException, Move] | None = None

    async def __aenter__(self) -> "StepBlock":
        await self._loop.recall()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = self._loop
        if error is None:
            await self._passed()
        elif isinstance(error, asyncio.CancelledError) or is_cancelled_exception(error):
            await loop.finish("cancelled", "the step was cancelled")
        elif isinstance(error, Exception):
            known = self._ended is not None and _stems_from(error, self._ended[0])
            move = self._ended[1] if self._ended and known else await self._body_failed(error)
            await loop.finish(move.end or "failed", move.reason)
        await self._memory.deliver()

    @property
    def context(self) -> RenderedContext:
        """What memory knows, for the attempt that is next; ``context.text`` fits a prompt."""
        state = self._loop.state
        return render(state.workflow_context(workflow.now()), state.package)

    @property
    def package(self) -> ContextPackage | None:
        """The context package as memory delivered it, None when memory was lost."""
        return self._loop.state.package

    if TYPE_CHECKING:
        execute_activity = staticmethod(workflow.execute_activity)
        execute_activity_method = staticmethod(workflow.execute_activity_method)
    else:

        async def execute_activity(self, activity: Any, *arguments: Any, **options: Any) -> Any:
            """Run an activity with memory between its attempts; parameters are ``workflow.execute_activity``'s.

            Its retry policy is the bound. The error of the last attempt is raised unchanged.
            """
            return await self._attempts(workflow.execute_activity, activity, arguments, options)

        async def execute_activity_method(self, activity: Any, *arguments: Any, **options: Any) -> Any:
            """Run an activity method with memory between its attempts."""
            return await self._attempts(workflow.execute_activity_method, activity, arguments, options)

    async def _attempts(
        self, execute: Callable[..., Awaitable[Any]], activity: Any, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        loop, begun = self._loop, workflow.now()
        policy = options.pop("retry_policy", None) or RetryPolicy()
        whole = options.pop("schedule_to_close_timeout", None)
        self._ended = None
        loop.state.policy = self._ports.policy = _bounds(policy, whole, loop.state, begun)
        while True:
            limits = _limits(options, whole, begun)
            started_at = workflow.now()
            try:
                answer = await execute(activity, *arguments, retry_policy=RetryPolicy(maximum_attempts=1), **limits)
            except ActivityError as error:
                if is_cancelled_exception(error):
                    raise
                move = await self._activity_failed(error, policy, started_at)
                if move.end is not None:
                    self._ended = error, move
                    raise
                await loop.apply(move)
                await loop.recall()
            else:
                loop.count(AttemptReport("succeeded", seconds=_seconds(started_at)))
                return answer

    async def _activity_failed(self, error: ActivityError, policy: RetryPolicy, started_at: datetime) -> Move:
        report = replace(report_of(error, policy), seconds=_seconds(started_at))
        self._loop.count(report)
        return await self._loop.failed(report)

    async def _body_failed(self, error: Exception) -> Move:
        report = report_of(error, RetryPolicy())
        # A block cannot run twice, so whatever it raised is its end.
        report = replace(report, final=report.final or "the block raised an exception")
        self._loop.count(report)
        return await self._loop.failed(report)

    async def _passed(self) -> None:
        state = self._loop.state
        report = state.last if state.last and state.last.outcome == "succeeded" else None
        if report is None:
            report = AttemptReport("succeeded", seconds=state.seconds(workflow.now()))
            self._loop.count(report)
        move = await self._loop.succeeded(report)
        await self._loop.finish("succeeded", move.reason)


def _stems_from(error: BaseException, origin: BaseException) -> bool:
    """Whether an exception is another one, or was raised while or because that was handled."""
    seen: BaseException | None = error
    while seen is not None and seen is not origin:
        seen = seen.__cause__ or seen.__context__
    return seen is origin


def report_of(error: BaseException, policy: RetryPolicy) -> AttemptReport:
    """Read a failed activity or an exception of the block as a failed attempt."""
    cause = error.cause if isinstance(error, ActivityError) and error.cause else error
    if isinstance(cause, exceptions.TimeoutError):
        lost = cause.type == exceptions.TimeoutType.HEARTBEAT
        return AttemptReport("failed", "worker_lost" if lost else "timeout", f"the activity timed out: {cause}")
    if isinstance(cause, ApplicationError):
        kind = cause.type or "ApplicationError"
        final = cause.non_retryable or kind in (policy.non_retryable_error_types or ())
        wait = cause.next_retry_delay
        return AttemptReport(
            "failed",
            error=f"{kind}: {cause.message}",
            final=f"{kind} is not retryable" if final else None,
            service_wait_seconds=wait.total_seconds() if wait else None,
        )
    return AttemptReport("failed", error=f"{type(cause).__name__}: {cause}")


class _BlockPorts:
    """What a block may do by itself: wait, and nothing else."""

    policy: StepPolicy | None = None

    def now(self) -> datetime:
        return workflow.now()

    def bounds(self, policy: StepPolicy) -> StepPolicy:
        return self.policy or policy

    async def attempt(self, work: AttemptWork) -> AttemptReport:
        raise AssertionError(work)  # because the block itself makes the attempts

    async def repair(self, repair: str, attempt: int) -> int | None:
        raise AssertionError((repair, attempt))  # because a block declares no repairs

    async def wait(self, seconds: float, why: str) -> None:
        await workflow.sleep(seconds, summary=f"wait {seconds:g} s, {why}"[:200])

    def show(self, progress: Progress) -> None:
        """Leave the caller's own details alone."""


class _CallablePorts(_BlockPorts, Generic[T]):
    def __init__(self, attempt: Attempt[T], verify: Verify[T] | None, repairs: Repairs) -> None:
        self._attempt, self._verify, self._repairs = attempt, verify, repairs
        self._values: list[T] = []
        self.raised: Exception | None = None

    def value(self) -> T:
        return self._values[-1]

    async def attempt(self, work: AttemptWork) -> AttemptReport:
        started_at = workflow.now()
        self.raised = None
        try:
            value = await self._attempt(StepAttempt(work.attempt, work.context, work.seconds_left))
            said = await self._verify(value) if self._verify else None
        except Exception as error:
            if is_cancelled_exception(error):
                raise asyncio.CancelledError from error
            self.raised = error
            return replace(report_of(error, RetryPolicy()), seconds=_seconds(started_at))
        self._values.append(value)
        if said is None or said is True:
            return AttemptReport("succeeded", seconds=_seconds(started_at))
        reason = said if isinstance(said, str) else "the verification said no"
        return AttemptReport("failed", "verify", reason, seconds=_seconds(started_at))

    async def repair(self, repair: str, attempt: int) -> int | None:
        try:
            await self._repairs[repair]()
        except Exception as error:
            if is_cancelled_exception(error):
                raise asyncio.CancelledError from error
            # A repair that failed is told to memory; only the attempt that follows decides about the step.
            workflow.logger.warning("repair %s failed before attempt %s", repair, attempt)
            return 1
        return 0


def _bounds(policy: RetryPolicy, whole: timedelta | None, state: StepState, begun: datetime) -> StepPolicy:
    first = _wait(policy.initial_interval)
    limited = policy.maximum_attempts > 0
    return StepPolicy(
        attempts=state.spent.attempts + policy.maximum_attempts if limited else None,
        first_delay=first,
        factor=policy.backoff_coefficient,
        # Temporal's own default of a maximum.
        longest_delay=_wait(policy.maximum_interval or policy.initial_interval * 100),
        seconds_budget=None if whole is None else state.seconds(begun) + whole.total_seconds(),
        seconds_owner="activity",
    )


def _wait(interval: timedelta) -> float:
    return min(max(0.0, interval.total_seconds()), LONGEST_WAIT)


def _check(spec: StepSpec) -> None:
    fault = spec.policy.fault()
    unknown = [name for name in spec.preventable if name not in spec.policy.repairs]
    try:
        if fault is not None:
            raise InvalidInput(Problem("policy", f"policy {fault}."))
        if unknown:
            raise InvalidInput(Problem("before", "before names what is not among the repairs."))
        check_spec(spec)
    except InvalidInput as error:
        raise refuse(error) from None


def _limits(options: dict[str, Any], whole: timedelta | None, begun: datetime) -> dict[str, Any]:
    if whole is None:
        return options
    left = whole - (workflow.now() - begun)
    return {**options, "schedule_to_close_timeout": max(left, timedelta(milliseconds=1))}


def _seconds(started_at: datetime) -> float:
    return (workflow.now() - started_at) / timedelta(seconds=1)


def _next_visit(memory: Memory, step: str) -> int:
    # On the workflow object, so that two handles in one workflow count on; a class with slots counts per handle.
    owner = workflow.instance()
    place = vars(owner if hasattr(owner, "__dict__") else memory)
    # By step alone: a record's key does not hold its scope.
    visits: dict[str, int] = place.setdefault(_VISITS, {})
    visits[step] = visits.get(step, 0) + 1
    return visits[step]
