"""What the demonstration promises, checked against what its runs came to. Pure."""

from collections.abc import Iterator, Sequence

from poimen.contracts.definition import Step, WorkflowDef
from poimen.contracts.run_io import StepResult
from worker.demo.runs import DemoRun
from worker.demo.table import last_with_memory


def not_held(definition: WorkflowDef, runs: Sequence[DemoRun]) -> list[str]:
    """Return a sentence for each part of the promise that was not held; an empty list is success.

    The first run watches, the last one is without memory. A step that passed in the first is one that can be helped.
    """
    last = last_with_memory(runs)
    if last is None or len(runs) < 3:
        return ["No run listened to memory."]
    steps = [step for phase in definition.phases for step in phase.steps]
    missing = [f"{run.name} did not come to {step.id}." for run in runs for step in steps if step.id not in run.steps]
    if missing:
        return missing
    return [sentence for step in steps for sentence in _of_step(step, runs[0], last, runs[-1])]


def _of_step(step: Step, watched: DemoRun, last: DemoRun, control: DemoRun) -> Iterator[str]:
    without, helped, again = (run.steps[step.id] for run in (watched, last, control))
    if without.end == "succeeded":
        yield from _recoverable(step, without, helped)
    else:
        yield from _incurable(step, without, helped)
    if not _as_bad(step, without, helped, again):
        yield (
            f"{step.id} needed {_attempts(without)} while memory watched and {_attempts(again)} without it; "
            "the control should be as bad."
        )


def _recoverable(step: Step, without: StepResult, helped: StepResult) -> Iterator[str]:
    if helped.end != "succeeded":
        yield f"{step.id} passed without memory and failed with it: {helped.reason}."
    elif helped.attempts_made >= without.attempts_made:
        yield f"{step.id} needed {_attempts(helped)} with memory and {_attempts(without)} without."
    if any(repair.before for repair in step.repairs) and helped.attempts_made != 1:
        yield f"{step.id} has a repair that may run before it and still needed {_attempts(helped)}."


def _incurable(step: Step, without: StepResult, helped: StepResult) -> Iterator[str]:
    if helped.end != "stopped" or not helped.reason or helped.attempts_made >= without.attempts_made:
        ended = f"{_attempts(helped)}, {helped.reason or 'no reason'}"
        yield f"{step.id} cannot be cured and was not stopped early: {ended}."


def _as_bad(step: Step, without: StepResult, helped: StepResult, again: StepResult) -> bool:
    if again.end != without.end or again.attempts_made <= helped.attempts_made:
        return False
    # How often one asks in vain before a time has passed depends on how fast the machine is.
    by_waiting = not step.repairs and without.end == "succeeded"
    return by_waiting or again.attempts_made == without.attempts_made


def _attempts(result: StepResult) -> str:
    return f"{result.attempts_made} attempt{'' if result.attempts_made == 1 else 's'}"
