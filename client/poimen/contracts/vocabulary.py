"""The closed words that messages are written in."""

from typing import Literal

ActionKind = Literal["none", "wait", "repair", "prevention"]
AttemptOutcome = Literal["succeeded", "failed"]
# How a step execution ended. `stopped`: advice ended it early; `exhausted`: a budget did; `interrupted`: the
# harness lost the worker or the workflow was terminated.
StepEnd = Literal["succeeded", "failed", "stopped", "exhausted", "cancelled", "interrupted"]
# Who said that the attempt failed. The first three are the step's own; the rest are the harness's and teach nothing
# about the step.
FailureSource = Literal["step", "verify", "judge", "timeout", "cancelled", "worker_lost", "budget", "executor"]
OWN_FAILURES: frozenset[str] = frozenset({"step", "verify", "judge"})
Verdict = Literal["retry", "retry_after", "repair", "escalate", "stop"]
Level = Literal["L0", "L1", "L2", "R"]
Tier = Literal["signatures", "vectors", "vault"]
TierStatus = Literal["answered", "late", "down", "skipped"]
TierHealth = Literal["ok", "degraded", "down"]
Trust = Literal["reviewed", "observed", "unverified"]
MemoryMode = Literal["on", "observe", "off"]
ItemKind = Literal[
    "lesson",
    "decision",
    "pattern",
    "reference",
    "skill",
    "incident",
    "rule",
    "fact",
    "constraint",
    "handoff",
    # What came of a past run.
    "run",
]
EmptyReason = Literal["no_evidence", "below_threshold", "deadline", "tier_down", "held_out", "conflict", "memory_off"]
