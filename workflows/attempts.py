"""One attempt of a step: run, then verify, then judge. The executor's own word decides only when nothing else can."""

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow

from poimen.contracts.definition import Check, Judge, Repair, Run, Step
from poimen.contracts.execution import (
    ActivityAnswer,
    ActivityWork,
    OutputReference,
    Purpose,
    RenderedContext,
    RunCommand,
    RunModel,
)
from poimen.contracts.message import decode
from poimen.contracts.problems import InvalidInput
from poimen.excerpts import HALF, WHOLE, both_ends
from poimen.render import used_by
from poimen.step_state import AttemptReport, AttemptWork
from workflows.executor_calls import CallFailure, run_activity, run_command, run_model
from workflows.outcomes import judge_prompt, judged, of_activity, of_command, of_failure, of_model


@dataclass(frozen=True)
class WorkPlace:
    """Where a run's work is done."""

    run: str
    queue: str
    workspace: str | None
    # Why no executor hosts the run, when none does.
    unavailable: str | None = None
    tenant: str | None = None


@dataclass(frozen=True)
class _Errand:
    """One call of an attempt: for whom, and how many seconds it may take."""

    place: WorkPlace
    step: str
    attempt: int
    purpose: Purpose
    seconds: float
    # Whether the budget, not the step, set the seconds.
    cut: bool
    # What the time budget leaves to the call and to its wait in a queue; None is no limit.
    left: float | None = None

    @property
    def budget_seconds(self) -> float | None:
        """The seconds, when the budget set them."""
        return self.seconds if self.cut else None

    @property
    def summary(self) -> str:
        word = "run" if self.purpose == "step" else self.purpose
        return f"{word} · attempt {self.attempt}"


async def attempt(
    step: Step, work: AttemptWork, place: WorkPlace, checkpoint: OutputReference | None = None
) -> AttemptReport:
    """Make one attempt within ``work.seconds_left``, from the checkpoint that an earlier one left."""
    if place.unavailable is not None:
        return AttemptReport("failed", "executor", place.unavailable, final=place.unavailable)
    started_at = workflow.now()
    ran = await _run(step, work, place, checkpoint)
    report, tokens = ran, ran.tokens
    if _may_be_checked(step, ran):
        left = _left(work, started_at)
        if step.verify is not None:
            errand = _errand(place, step.id, work.attempt, "verify", step.verify.timeout, left)
            # After a failure of the command's own, only whether the verification passed matters.
            brief = ran.outcome == "failed"
            verified = await _check(step.verify, errand, ran.output, brief=brief)
            tokens += verified.tokens
            report = _cause(ran, verified)
        if step.judge is not None and report.outcome == "succeeded":
            errand = _errand(place, step.id, work.attempt, "judge", step.judge.timeout, _left(work, started_at))
            # A model's step is asked without the package, which leaves room for all of its excerpt.
            report = await _judge(step.judge, errand, ran, WHOLE if step.run.model is not None else HALF)
            tokens += report.tokens
    return _whole(ran, report, started_at, tokens)


async def repair(body: Repair, step: str, number: int, place: WorkPlace, seconds_left: float | None) -> int | None:
    """Run a declared repair; return its exit status, None when it did not end by itself."""
    if place.unavailable is not None:
        return None
    errand = _errand(place, step, number, "repair", body.timeout, seconds_left)
    result = await run_command(place.queue, _command(body, errand), f"repair {body.id}", errand.left)
    return None if isinstance(result, CallFailure) else result.exit_code


async def gate(body: Check, phase: str, visit: int, place: WorkPlace, seconds_left: float | None) -> AttemptReport:
    """Check what a phase's steps made together."""
    return await _check(body, _errand(place, phase, visit, "gate", body.timeout, seconds_left), "")


async def _run(step: Step, work: AttemptWork, place: WorkPlace, checkpoint: OutputReference | None) -> AttemptReport:
    run = step.run
    errand = _errand(place, step.id, work.attempt, "step", run.timeout, work.seconds_left)
    if run.activity is not None:
        answer = await _ask_activity(run, errand, prompt=run.prompt, context=work.context)
        return of_failure(answer, errand.cut) if isinstance(answer, CallFailure) else of_activity(answer, "step")
    if run.model is not None:
        context = used_by(run.prompt or "", work.context).model_copy(update={"package": ""})
        request = _with_context(_model(run.model, run.prompt or "", errand), context, run.max_tokens)
        said = await run_model(place.queue, request, errand.summary, errand.left)
        return of_model(said, budget_seconds=errand.budget_seconds)
    context = used_by(run.prompt or "", work.context)
    command = _command(run, errand, prompt=run.prompt, context=context, checkpoint=checkpoint)
    result = await run_command(place.queue, command, errand.summary, errand.left)
    return of_command(result, "step", cut_by_budget=errand.cut)


async def _check(body: Check, errand: _Errand, output: str, *, brief: bool = False) -> AttemptReport:
    """Exit 0 passes, and an activity that does not say it failed."""
    if body.activity is not None:
        answer = await _ask_activity(body, errand, output=output)
        if isinstance(answer, CallFailure):
            return replace(of_failure(answer, errand.cut), source="verify")
        return of_activity(answer, "verify")
    result = await run_command(errand.place.queue, _command(body, errand, brief=brief), errand.summary, errand.left)
    return of_command(result, "verify", cut_by_budget=errand.cut)


async def _judge(judge: Judge, errand: _Errand, ran: AttemptReport, room: tuple[int, int]) -> AttemptReport:
    if judge.activity is not None:
        answer = await _ask_activity(judge, errand, output=ran.output)
        if isinstance(answer, CallFailure):
            return replace(of_failure(answer, errand.cut), source="judge")
        return judged(of_activity(answer, "judge"), judge, answer)
    if judge.model is not None:
        request = _model(judge.model, judge_prompt(judge.rubric or "", both_ends(ran.output, room)), errand)
        said = await run_model(errand.place.queue, request, errand.summary, errand.left)
        return judged(of_model(said, budget_seconds=errand.budget_seconds), judge)
    # A judge reads all of an output from the store; what a report or an activity said is in no store.
    stored = None if ran.report and ran.report.output else ran.reference
    work = _command(judge, errand, prompt=None if stored else both_ends(ran.output, room), stdin=stored)
    result = await run_command(errand.place.queue, work, errand.summary, errand.left)
    return judged(of_command(result, "judge", cut_by_budget=errand.cut), judge)


def _command(body: Run | Check | Judge | Repair, errand: _Errand, **more: Any) -> RunCommand:
    assert body.command is not None
    return RunCommand(
        argv=body.command,
        run=errand.place.run,
        step=errand.step,
        tenant=errand.place.tenant,
        attempt=errand.attempt,
        purpose=errand.purpose,
        workspace=errand.place.workspace,
        cwd=body.cwd,
        env=body.env,
        timeout_seconds=errand.seconds,
        **more,
    )


def _model(model: str, prompt: str, errand: _Errand) -> RunModel:
    return RunModel(
        model=model,
        prompt=prompt,
        run=errand.place.run,
        step=errand.step,
        tenant=errand.place.tenant,
        attempt=errand.attempt,
        purpose="judge" if errand.purpose == "judge" else "step",
        timeout_seconds=errand.seconds,
    )


def _with_context(request: RunModel, context: RenderedContext, max_tokens: int | None) -> RunModel:
    """Return the request with what memory said; a judge's request has none."""
    return request.model_copy(update={"context": context, "max_tokens": max_tokens})


async def _ask_activity(
    body: Run | Check | Judge, errand: _Errand, *, output: str | None = None, **asked: Any
) -> ActivityAnswer | CallFailure:
    assert body.activity is not None
    purpose = "step" if errand.purpose == "repair" else errand.purpose
    message = ActivityWork(
        run=errand.place.run, step=errand.step, attempt=errand.attempt, purpose=purpose, output=output, **asked
    )
    answer = await run_activity(body.activity, message, errand.seconds, errand.summary, errand.left)
    return answer if isinstance(answer, CallFailure) else _answer(answer)


def _answer(answer: object) -> ActivityAnswer:
    # A dict without any field of an answer is an output like every other JSON.
    if isinstance(answer, dict) and answer.keys() & ActivityAnswer.model_fields.keys():
        try:
            return decode(ActivityAnswer, answer, "the activity's answer").message
        except InvalidInput:
            # An answer of another shape is still an output.
            pass
    if answer is None:
        return ActivityAnswer()
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)
    return ActivityAnswer(output=both_ends(text))


def _may_be_checked(step: Step, ran: AttemptReport) -> bool:
    # A command that ran, however it exited, is judged by what it left behind; one that never ran is not.
    return (step.verify is not None or step.judge is not None) and ran.source == "step" and ran.final is None


def _cause(ran: AttemptReport, verified: AttemptReport) -> AttemptReport:
    """Name what failed: the command's own failure explains a failed verification better than the verification."""
    if verified.outcome == "failed" and ran.outcome == "failed":
        return ran
    return verified


def _whole(ran: AttemptReport, report: AttemptReport, started_at: datetime, tokens: int) -> AttemptReport:
    own = report is ran
    return replace(
        report,
        seconds=_seconds_since(started_at),
        tokens=tokens,
        output=ran.output,
        # A failure points to the output that shows it, a success to what the step made.
        reference=ran.reference if own or report.outcome == "succeeded" else report.reference,
        report=ran.report,
        checkpoint=ran.checkpoint,
        warnings=ran.warnings,
    )


def _errand(
    place: WorkPlace,
    step: str,
    number: int,
    purpose: Purpose,
    timeout_ms: int,
    seconds_left: float | None = None,
) -> _Errand:
    own = timeout_ms / 1000
    cut = seconds_left is not None and seconds_left < own
    seconds = max(0.1, seconds_left) if cut and seconds_left is not None else own
    return _Errand(place, step, number, purpose, seconds, cut, seconds_left)


def _left(work: AttemptWork, started_at: datetime) -> float | None:
    return None if work.seconds_left is None else max(0.0, work.seconds_left - _seconds_since(started_at))


def _seconds_since(started_at: datetime) -> float:
    return (workflow.now() - started_at) / timedelta(seconds=1)
