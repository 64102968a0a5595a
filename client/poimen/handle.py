"""Memory for a workflow of your own: two lines around an activity, or ``run_step`` for a verification in the loop."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
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
from poimen.record_batches import DELIVERY_LIMIT, batches
from poimen.render import render
from poimen.step_loop import StepLoop, run_step
from poimen.step_messages import check_spec
from poimen.step_rules import LONGEST_WAIT, Move, StepPolicy, history_is_full
from poimen.step_state import AttemptReport, AttemptWork, Progress, StepSpec, StepState
from poimen.temporal_memory import TemporalMemory, was_cancelled

# Attempts of one activity with memory between them; each is some 20 events of the caller's history.
MOST_ATTEMPTS = 50
# A history ends its workflow at 51,200 events or 50 MiB; the rest of the workflow needs most of that.
_MOST_EVENTS = 10_000
_MOST_HISTORY_BYTES = 10 * 1024 * 1024
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
        info, visit = workflow.info(), _next_visit(self, step)
        spec = StepSpec(
            scope=self.scope,
            step=step,
            key=info.run_id,
            policy=policy,
            # Not the first run of the chain: visits begin at 1 again in each execution of it.
            run=self.run or info.original_execution_run_id,
            branch=None if info.run_id == info.original_execution_run_id else info.run_id[:8],
            tenant=self.tenant,
            visit=visit,
            environment=self.environment,
            memory=self.mode,
            **more,
        )
        _check(spec)
        # A run that the caller names may be the same for many executions.
        return replace(spec, occurrence_id=f"{info.run_id}:{step}:{visit}")

    async def deliver(self) -> None:
        """Hand records that could not be written to an abandoned child on memory's queue."""
        if self.link.pending:
            await _to_its_end(self._hand_over())
        self.link.dropped = 0

    async def _hand_over(self) -> None:
        link, info = self.link, workflow.info()
        for number, records in enumerate(batches(list(link.pending)), 1):
            await workflow.start_child_workflow(
                "DeliverRecords",
                encode(DeliverRecordsInput(records=tuple(records), queue=self.queue)),
                # A caller's own id may be as long as the server takes; the record names its workflow anyway.
                id=f"{info.workflow_id[:200]}/records/{info.run_id}/{workflow.uuid4().hex[:8]}-{number}",
                task_queue=self.queue,
                execution_timeout=DELIVERY_LIMIT,
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            )
            handed_over = set(map(id, records))
            link.pending = [record for record in link.pending if id(record) not in handed_over]


class StepBlock:
    """One step execution around a block. Leaving it is success; an exception is failure and goes on unchanged."""

    def __init__(self, memory: Memory, spec: StepSpec) -> None:
        self._memory, self._ports = memory, _BlockPorts()
        self._loop = StepLoop(StepState(spec, workflow.now(), spec.policy), self._ports, memory.link)
        if TYPE_CHECKING:
            # On the instance, where a type checker keeps all overloads.
            self.execute_activity = workflow.execute_activity
            self.execute_activity_method = workflow.execute_activity_method
        # The error that ended the block's latest activity, and the move that made it the end.
        self._ended: tuple[BaseException, Move] | None = None

    async def __aenter__(self) -> "StepBlock":
        await self._loop.recall()
        # Whatever the block does before its first activity is part of its attempt.
        self._loop.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._end(error)
        finally:
            await self._memory.deliver()

    async def _end(self, error: BaseException | None) -> None:
        loop = self._loop
        if error is None:
            await self._passed()
        elif isinstance(error, asyncio.CancelledError) or was_cancelled(error):
            await loop.finish("cancelled", loop.cancelled())
        elif isinstance(error, Exception):
            known = self._ended is not None and _stems_from(error, self._ended[0])
            move = self._ended[1] if self._ended and known else await self._body_failed(error)
            await loop.finish(move.end or "failed", move.reason)

    @property
    def context(self) -> RenderedContext:
        """What memory knows, for the attempt that is next; ``context.text`` fits a prompt."""
        state = self._loop.state
        return render(state.workflow_context(workflow.now()), state.package)

    @property
    def package(self) -> ContextPackage | None:
        """The context package as memory delivered it, None when memory was lost."""
        return self._loop.state.package

    if not TYPE_CHECKING:

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
        made, once = 0, RetryPolicy(maximum_attempts=1)
        while True:
            rest = _rest(policy, made, loop.state) if made and _is_long(made) else None
            started_at, made = workflow.now(), made + 1
            loop.begin()
            try:
                answer = await execute(
                    activity, *arguments, retry_policy=rest or once, **_limits(options, whole, begun)
                )
            except ActivityError as error:
                if was_cancelled(error):
                    raise
                move = await self._activity_failed(error, policy, started_at, last=rest is not None)
                if move.end is not None:
                    self._ended = error, move
                    raise
                await loop.apply(move)
                await loop.recall()
            else:
                loop.count(AttemptReport("succeeded", seconds=_seconds(started_at)))
                return answer

    async def _activity_failed(
        self, error: ActivityError, policy: RetryPolicy, started_at: datetime, *, last: bool
    ) -> Move:
        report = replace(report_of(error, policy), seconds=_seconds(started_at))
        if last:
            report = replace(report, final=report.final or "the server's own retries ended without success")
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
    if is_cancelled_exception(error):
        return AttemptReport("failed", "cancelled", f"{type(error).__name__}: what the step waited for was cancelled")
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
        self._made = 0

    def value(self) -> T:
        return self._values[-1]

    def bounds(self, policy: StepPolicy) -> StepPolicy:
        info = workflow.info()
        # The first attempt is the caller's own, whatever memory has room for.
        full = self._made > 0 and history_is_full(info.get_current_history_length(), info.get_current_history_size())
        # A workflow that went on without this bound must be replayed without it. Asked only where it matters: the
        # answer is an event of the caller's history.
        return replace(policy, history_is_full=full and workflow.patched("run-step-history"))

    async def attempt(self, work: AttemptWork) -> AttemptReport:
        started_at = workflow.now()
        self.raised, self._made = None, work.attempt
        try:
            value = await self._attempt(StepAttempt(work.attempt, work.context, work.seconds_left))
            said = await self._verify(value) if self._verify else None
        except Exception as error:
            if was_cancelled(error):
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
            if was_cancelled(error):
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


def _is_long(made: int) -> bool:
    info = workflow.info()
    return (
        made >= MOST_ATTEMPTS
        or info.get_current_history_length() >= _MOST_EVENTS
        or info.get_current_history_size() >= _MOST_HISTORY_BYTES
    )


def _rest(policy: RetryPolicy, made: int, state: StepState) -> RetryPolicy:
    """Return the caller's policy for the attempts that are left, going on from the delay it had come to."""
    bounds = state.policy
    delay = bounds.delay(state.spent.waits)
    return replace(
        policy,
        initial_interval=timedelta(seconds=delay) if delay > 0 else policy.initial_interval,
        maximum_interval=policy.maximum_interval or timedelta(seconds=bounds.longest_delay),
        maximum_attempts=max(1, policy.maximum_attempts - made) if policy.maximum_attempts > 0 else 0,
    )


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Run work that a cancellation may not cut short; the cancellation is raised after it."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    await task


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
