"""What was observed: attempts with the action applied before each, and the end of every step."""

from dataclasses import dataclass
from typing import Literal

ActionKind = Literal["none", "wait", "repair", "prevention"]
Outcome = Literal["failed", "succeeded"]


@dataclass(frozen=True, slots=True)
class AppliedAction:
    """What was really done before an attempt.

    `since_first_failure_seconds` runs from the end of the occurrence's first failed attempt to the start
    of this attempt; it is 0 for attempt 1.
    """

    kind: ActionKind = "none"
    repair: str | None = None
    waited_seconds: float = 0.0
    since_first_failure_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a step inside an occurrence.

    `signature` is None for a success and for a failure that is not the step's own (a lost worker, a cancel).
    `recorded_order` is the order of its record in the database; it only orders.
    """

    occurrence: str
    run: str
    attempt: int
    outcome: Outcome
    signature: str | None
    applied: AppliedAction
    environment: str
    recorded_order: int


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """How one step execution began and ended, healthy ones too.

    `first_signature` is the signature of a failed attempt 1, None when attempt 1 succeeded.
    """

    run: str
    branch: str
    visit: int
    environment: str
    prevented_by: str | None
    prevented_signature: str | None
    first_signature: str | None
    succeeded: bool
    recorded_order: int
