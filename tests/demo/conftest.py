"""Runs of the demonstration, made by hand."""

from typing import Any

from poimen.contracts.memory_calls import AppliedAction, AttemptRecord, Prevention, RetryAdvice
from poimen.contracts.run_io import StepResult
from worker.demo.runs import DemoRun

SIGNATURE = "s1:" + "4" * 32


def step(attempts: int, end: str = "succeeded", *, reason: str = "it is over", **last: Any) -> StepResult:
    """A step that ended so after as many attempts; `last` is what was done before the last one."""
    outcomes = ["failed"] * (attempts - 1) + ["succeeded" if end == "succeeded" else "failed"]
    records = [
        AttemptRecord(attempt=number, outcome=outcome, signature=SIGNATURE, title="port taken")
        for number, outcome in enumerate(outcomes, start=1)
    ]
    records[-1] = records[-1].model_copy(update={"applied": AppliedAction(**last)})
    return StepResult(step="a", visit=1, end=end, reason=reason, attempts=records, attempts_made=attempts)


def advised(result: StepResult, because: str) -> StepResult:
    """The step, its last failure answered with advice for this reason."""
    *before, failed, passed = result.attempts
    advice = RetryAdvice(verdict="repair", because=because, confidence=0.8)
    told = failed.model_copy(update={"advice": advice})
    return result.model_copy(update={"attempts": (*before, told, passed)})


def prevented(repair: str, because: str) -> StepResult:
    """A step whose repair ran before it."""
    prevention = Prevention(repair=repair, because=because, signature=SIGNATURE)
    return step(1).model_copy(update={"prevention": prevention})


def demo_run(name: str, **steps: StepResult) -> DemoRun:
    """A run by its name, which tells its memory too."""
    memory = name if name in {"observe", "off"} else "on"
    return DemoRun(name, f"demo-{name}", memory, 12.4, steps)  # type: ignore[arg-type]
