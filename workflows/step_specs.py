"""What a step execution is asked to be: its identity and its bounds. Pure."""

from datetime import datetime, timedelta

from temporalio import workflow

from poimen.contracts.definition import Budget, Step
from poimen.contracts.run_io import StartHarnessStep
from poimen.step_rules import StepPolicy
from poimen.step_state import StepSpec


def branch_of(info: workflow.Info, inherited: str | None) -> str | None:
    """Name the branch of a step execution: a reset starts a new one, everything else inherits it."""
    if info.run_id != info.original_execution_run_id:
        return info.run_id[:8]
    return inherited


def run_of(info: workflow.Info, inherited: str | None) -> str:
    """Name the run an execution belongs to: the one it inherits, or itself; a reset is of the run it resets.

    Not the first execution of the chain: a cron schedule and a workflow retry keep that one, and count visits anew.
    """
    return inherited or info.original_execution_run_id


def step_spec(start: StartHarnessStep, info: workflow.Info, now: datetime) -> StepSpec:
    """Return what the step loop is to do."""
    step = start.step
    return StepSpec(
        scope=start.scope,
        step=step.id,
        # The executing run: a reset or a workflow id used again has another one, so no key is ever met twice.
        key=info.run_id,
        policy=step_policy(start, now),
        run=run_of(info, start.run),
        branch=branch_of(info, start.branch),
        tenant=start.tenant,
        phase=start.phase,
        visit=start.visit,
        tool=step.tool,
        task=task_of(step),
        environment=start.environment,
        memory=start.memory,
        preventable=tuple(repair.id for repair in step.repairs if repair.before),
        definition_hash=start.definition_hash,
    )


def step_policy(start: StartHarnessStep, now: datetime) -> StepPolicy:
    """Return the step's bounds: its retry, and the tighter of its own budget and the run's."""
    step, left = start.step, start.budget_left
    retry, own = step.retry or start.retry, step.budget or Budget()
    own_seconds = None if own.time is None else own.time / 1000
    run_seconds = left.time_seconds
    if start.deadline_at is not None:
        until = max(0.0, (start.deadline_at - now) / timedelta(seconds=1))
        run_seconds = until if run_seconds is None else min(until, run_seconds)
    attempts, attempts_owner = _tighter(own.attempts, left.attempts)
    tokens, tokens_owner = _tighter(own.tokens, left.tokens)
    seconds, seconds_owner = _tighter(own_seconds, run_seconds)
    return StepPolicy(
        attempts=retry.attempts,
        first_delay=retry.first_delay / 1000,
        factor=float(retry.factor),
        longest_delay=retry.longest_delay / 1000,
        repairs=tuple(repair.id for repair in step.repairs),
        attempts_budget=None if attempts is None else int(attempts),
        tokens_budget=None if tokens is None else int(tokens),
        seconds_budget=seconds,
        attempts_owner=attempts_owner,
        tokens_owner=tokens_owner,
        seconds_owner=seconds_owner,
        least_confidence=start.least_confidence,
    )


def step_deadline(spec: StepSpec, now: datetime) -> datetime | None:
    """Return the instant at which the step's time budget ends."""
    seconds = spec.policy.seconds_budget
    return None if seconds is None else now + timedelta(seconds=seconds)


def task_of(step: Step) -> str:
    """Say what a step is about, for a search: its title, prompt and command."""
    parts = [step.id, step.title or "", step.run.prompt or "", " ".join(step.run.command or ())]
    return "\n".join(part for part in parts if part)[:4_096]


def needs_executor(step: Step) -> bool:
    """Whether any part of the step runs on an executor."""
    bodies = [step.run, step.verify, step.judge]
    return bool(step.repairs) or any(body is not None and body.activity is None for body in bodies)


def _tighter(own: float | None, run: float | None) -> tuple[float | None, str]:
    if run is None or (own is not None and own <= run):
        return own, "step"
    return run, "run"
