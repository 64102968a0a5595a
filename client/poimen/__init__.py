"""What a workflow installs to give its steps a memory.

``Memory`` wraps activities; the contracts are in ``poimen.contracts``, definitions in Python in ``poimen.builder``.
"""

from poimen.handle import Memory, StepAttempt, StepBlock, StepFailedError
from poimen.step_rules import StepPolicy

__all__ = ["Memory", "StepAttempt", "StepBlock", "StepFailedError", "StepPolicy"]
