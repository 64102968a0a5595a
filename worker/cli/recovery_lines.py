"""Recovery steps as numbered lines."""

from collections.abc import Sequence

from memory.learning.wording import seconds
from poimen.contracts.memory_calls import RecoveryStep, SeenRecovery


def recovery_lines(steps: Sequence[RecoveryStep]) -> list[str]:
    """Return the steps in their order, each with how often it worked, and with the item that tells of it."""
    width = max((len(_action(step)) for step in steps), default=0)
    return [f"  {number}. {_action(step):<{width}}  {_evidence(step)}" for number, step in enumerate(steps, 1)]


def _action(step: RecoveryStep) -> str:
    if step.repair is not None:
        return f"repair {step.repair}"
    return f"wait {seconds(step.delay_seconds)}" if step.action == "wait" else "plain retry"


def _evidence(step: RecoveryStep) -> str:
    told = f"worked {step.worked} of {step.tried}" if step.tried else "untried"
    return f"{told}   {step.item}" if isinstance(step, SeenRecovery) else told
