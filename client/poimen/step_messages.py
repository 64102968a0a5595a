"""The messages a step sends to memory, made from where it stands. Pure."""

from datetime import datetime
from typing import Any

from poimen.contracts.memory_calls import AnalyzeError, DocumentDecision, GetContext, LearnFromExecution
from poimen.contracts.message import decode
from poimen.contracts.vocabulary import StepEnd
from poimen.excerpts import cut_head
from poimen.step_state import AttemptReport, StepSpec, StepState

# As encoded JSON: a search needs no more of a task, and every attempt sends it again.
_TASK_BYTES = 4 * 1024
_LESSON_BYTES = 2 * 1024
_DECISION_BYTES = 2 * 1024
_ARTIFACT_BYTES = 1024
_MOST_ARTIFACTS = 20


def check_spec(spec: StepSpec) -> None:
    """Raise ``InvalidInput`` when a message about the step could not be made: a name that is empty, too long or odd.

    Checked before the step begins, because a message that is refused in mid-step fails the workflow task for ever.
    """
    who = _identity_of(spec, 1, None)
    decode(AnalyzeError, {**who, "error": "", "repairs": list(spec.policy.repairs)}, "The step")
    decode(LearnFromExecution, {**who, "outcome": "succeeded", "tags": list(spec.tags)}, "The step")
    decode(
        DocumentDecision,
        {**who, "kind": "check", "decision": "", "definition_hash": spec.definition_hash},
        "The step",
    )


def ask_for_context(state: StepState, now: datetime) -> GetContext:
    """Ask what is known before the next attempt."""
    return GetContext(
        **_identity(state, state.number),
        task=cut_head(state.spec.task, _TASK_BYTES),
        budget_left=state.left(now),
        repairs=state.spec.preventable if state.number == 1 else (),
        last_signature=state.signature,
        earlier_attempts=state.earlier(),
    )


def tell_failure(state: StepState, report: AttemptReport, now: datetime) -> AnalyzeError:
    """Report the failed attempt and ask what ended it before."""
    policy = state.policy
    return AnalyzeError(
        **_identity(state, state.spent.attempts, "analyze"),
        error=report.error,
        exit_code=report.exit_code,
        source=report.source,
        applied=state.applied,
        package_id=state.package_id,
        repairs=policy.repairs,
        attempts_left=state.left(now).attempts,
        next_delay_seconds=policy.delay(state.spent.waits),
        longest_delay_seconds=policy.longest_delay,
        service_wait_seconds=report.service_wait_seconds,
        seconds=report.seconds,
        tokens=report.tokens,
    )


def tell_success(state: StepState, report: AttemptReport) -> LearnFromExecution:
    """Report the attempt that passed, and what was done before it."""
    lesson = report.report.lesson if report.report else None
    artifacts = report.report.artifacts if report.report else ()
    indexed = report.report.indexed if report.report else ()
    return LearnFromExecution(
        **_identity(state, state.spent.attempts, "learn"),
        outcome="succeeded",
        applied=state.applied,
        result=report.output,
        artifacts=tuple(cut_head(artifact, _ARTIFACT_BYTES) for artifact in artifacts[:_MOST_ARTIFACTS]),
        indexed=tuple(cut_head(artifact, _ARTIFACT_BYTES) for artifact in indexed[:_MOST_ARTIFACTS]),
        tags=state.spec.tags,
        lesson=cut_head(lesson, _LESSON_BYTES) if lesson else None,
        package_id=state.package_id,
        seconds=report.seconds,
        tokens=report.tokens,
    )


def document_end(state: StepState, end: StepEnd, reason: str, now: datetime) -> DocumentDecision:
    """Put the step execution on record, whatever its end."""
    report = state.last.report if state.last else None
    decided = report.decision if report and report.decision else f"{end}: {reason}"
    packages = dict.fromkeys(record.package_id for record in state.records() if record.package_id)
    return DocumentDecision(
        **_identity(state, max(1, state.spent.attempts), "document"),
        kind="step_completion",
        decision=cut_head(decided, _DECISION_BYTES),
        reasoning=reason,
        end=end,
        attempts=state.records(),
        prevention=state.prevention,
        package_ids=tuple(packages),
        seconds=state.seconds(now),
        tokens=state.spent.tokens,
        memory=state.spec.memory,
        definition_hash=state.spec.definition_hash,
    )


def _identity(state: StepState, attempt: int, verb: str | None = None) -> dict[str, Any]:
    return _identity_of(state.spec, attempt, verb)


def _identity_of(spec: StepSpec, attempt: int, verb: str | None) -> dict[str, Any]:
    return {
        "scope": spec.scope,
        "tenant": spec.tenant,
        "run": spec.run,
        "branch": spec.branch,
        "phase": spec.phase,
        "step": spec.step,
        "visit": spec.visit,
        "attempt": attempt,
        "tool": spec.tool,
        "occurrence_id": spec.occurrence_id,
        "environment": spec.environment,
        "idempotency_key": f"{spec.key}:{spec.step}:{spec.visit}:{attempt}:{verb}" if verb else None,
    }
