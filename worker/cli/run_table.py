"""What the steps of a run came to, as a table: in the order they began, and those that never did at the end. Pure."""

from collections.abc import Iterator, Sequence

from poimen.contracts.definition import WorkflowDef
from poimen.contracts.run_io import StepSummary
from worker.cli.output import one_line, table
from workflows.run_flow import MOST_SUMMARIES

_HEADS = ("phase", "step", "attempts", "seconds", "end", "reason")


def run_table(definition: WorkflowDef, ended: Sequence[StepSummary]) -> str:
    """Return the table, one row a step execution."""
    rows = [_row(step) for step in in_order_of_start(definition, ended)]
    known = {step.step for step in ended}
    if len(ended) < MOST_SUMMARIES:  # else the first ones are left out, and are no news
        rows += [
            (phase.id, step.id, "0", "", "not started", "")
            for phase in definition.phases
            for step in phase.steps
            if step.id not in known
        ]
    return table(_HEADS, rows, right=(2, 3))


def in_order_of_start(definition: WorkflowDef, ended: Sequence[StepSummary]) -> list[StepSummary]:
    """Put steps that stand in the order of their ends into that of their starts.

    A step starts when the last of its needs has ended; those that start at one time do so as they are declared.
    """
    declared = {step.id: number for number, step in enumerate(s for phase in definition.phases for s in phase.steps)}
    needs = {step.id: step.needs for phase in definition.phases for step in phase.steps}
    ordered: list[StepSummary] = []
    for block in _visits(ended):
        ends = {step.step: number for number, step in enumerate(block)}

        def start(step: StepSummary, ends: dict[str, int] = ends) -> tuple[int, int]:
            return max((ends.get(need, -1) for need in needs.get(step.step, ())), default=-1), declared.get(
                step.step, -1
            )

        ordered += sorted(block, key=start)
    return ordered


def _visits(ended: Sequence[StepSummary]) -> Iterator[list[StepSummary]]:
    """Cut where a phase ends, or a step comes again after a way back."""
    block: list[StepSummary] = []
    for step in ended:
        if block and (step.phase != block[0].phase or any(step.step == other.step for other in block)):
            yield block
            block = []
        block.append(step)
    if block:
        yield block


def _row(step: StepSummary) -> tuple[str, ...]:
    return (
        step.phase,
        step.step if step.visit == 1 else f"{step.step} ({step.visit})",
        str(step.attempts),
        f"{step.seconds:.1f}",
        step.end,
        one_line(_reason(step), 80),
    )


def _reason(step: StepSummary) -> str:
    first = f"{step.prevented_by} first; " if step.prevented_by else ""
    # A reason that only counts the attempts leaves out what they failed with.
    told = f": {step.failure}" if step.failure and step.failure not in step.reason else ""
    return f"{first}{step.reason}{told}"
