"""The decisions a run puts on record about itself: gates, milestones, and its one end. Pure."""

from dataclasses import dataclass
from datetime import datetime

from poimen.contracts.memory_calls import DocumentDecision, Fingerprint
from poimen.contracts.run_io import StartHarnessRun
from poimen.contracts.vocabulary import StepEnd


@dataclass(frozen=True)
class RunIdentity:
    """Who a run is; ``key`` prefixes the idempotency keys of its records."""

    run: str
    key: str
    branch: str | None
    definition_hash: str
    environment: Fingerprint


@dataclass(frozen=True)
class RunEnd:
    """How a run ended, and why."""

    end: StepEnd
    reason: str


def gate_decision(
    start: StartHarnessRun, who: RunIdentity, phase: str, visit: int, failure: str | None
) -> DocumentDecision:
    """Document a composition gate."""
    decided = "passed" if failure is None else f"failed: {failure}"
    return _decision(start, who, "gate", phase, visit, f"gate of {phase} {decided}", end=None)


def milestone(start: StartHarnessRun, who: RunIdentity, phase: str, visit: int) -> DocumentDecision:
    """Document that a phase is complete."""
    return _decision(start, who, "phase_milestone", phase, visit, f"phase {phase} is complete", end=None)


def run_final(start: StartHarnessRun, who: RunIdentity, ended: RunEnd, seconds: float, tokens: int) -> DocumentDecision:
    """Document the run's end; there is one for every run."""
    decision = _decision(start, who, "run_final", None, 1, f"{ended.end}: {ended.reason}", ended.end)
    return decision.model_copy(update={"seconds": seconds, "tokens": tokens})


def seconds_between(began: datetime, now: datetime) -> float:
    """Return the seconds from one instant to a later one."""
    return max(0.0, (now - began).total_seconds())


def _decision(
    start: StartHarnessRun,
    who: RunIdentity,
    kind: str,
    phase: str | None,
    visit: int,
    decision: str,
    end: StepEnd | None,
) -> DocumentDecision:
    return DocumentDecision(
        scope=start.definition.scope,
        tenant=start.tenant,
        run=who.run,
        branch=who.branch,
        phase=phase,
        visit=visit,
        environment=who.environment,
        idempotency_key=f"{who.key}:{phase or 'run'}:{visit}:{kind}",
        kind=kind,
        decision=decision[:4_096],
        end=end,
        memory=start.memory,
        definition_hash=who.definition_hash,
        definition=start.definition.name,
    )
