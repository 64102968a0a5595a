"""The one table: attempts by step and run, and why the last run with memory differs. Pure."""

import re
import textwrap
from collections.abc import Sequence

from poimen.contracts.memory_calls import AttemptRecord
from poimen.contracts.run_io import StepResult
from worker.demo.runs import DemoRun

WIDTH = 100
_GAP = "  "
_COUNTS = re.compile(r"worked \d+ of \d+")
_LONGEST_WHY_LINES = 2


def last_with_memory(runs: Sequence[DemoRun]) -> DemoRun | None:
    """Return the last run that listened to memory."""
    return next((run for run in reversed(runs) if run.memory == "on"), None)


def render_table(runs: Sequence[DemoRun]) -> str:
    """Return the table of the runs in their order, at most 100 columns wide unless the runs alone are wider."""
    last = last_with_memory(runs)
    steps = list(dict.fromkeys(step for run in runs for step in run.steps))
    labels = ["obs" if run.memory == "observe" else run.name for run in runs]
    first = max(len(name) for name in ["seconds", *steps]) + 1
    widths = [max(3, len(label)) for label in labels]

    def line(head: str, cells: Sequence[str], why: str = "") -> list[str]:
        numbers = "".join(_GAP + cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        start = f"{head:<{first}}{numbers.removeprefix(_GAP)}"
        return _with_why(start, why)

    title = f"why {last.name} differs" if last else ""
    lines = ["Attempts (F: failed)", *line("step", labels, title)]
    for step in steps:
        lines += line(step, [_cell(run, step) for run in runs], why_differs(runs, step))
    lines += line("all", [str(run.attempts) for run in runs])
    lines += line("seconds", [f"{run.seconds:.0f}" for run in runs])
    return "\n".join(text.rstrip() for text in lines)


def why_differs(runs: Sequence[DemoRun], step: str) -> str:
    """Say from the records why the step went as it did in the last run with memory."""
    last = last_with_memory(runs)
    result = last.steps.get(step) if last else None
    if result is None:
        return "not run" if last else ""
    if result.prevention is not None:
        prevention = result.prevention
        told = _COUNTS.search(prevention.because)
        title = _title_of(runs, step, prevention.signature)
        because = f"{told[0]}, {title}" if told and title else prevention.because
        return f"{prevention.repair} first: {because}"
    if result.end != "succeeded":
        return result.reason
    return _what_ended_it(result)


def _with_why(start: str, why: str) -> list[str]:
    room = WIDTH - len(start) - 3
    if not why or room < 20:
        return [start]
    told = textwrap.wrap(why, room, max_lines=_LONGEST_WHY_LINES, placeholder=" …")
    return [f"{start}   {told[0]}", *(f"{'':{len(start)}}   {more}" for more in told[1:])]


def _cell(run: DemoRun, step: str) -> str:
    result = run.steps.get(step)
    if result is None:
        return "-"
    return f"{result.attempts_made}{'' if result.end == 'succeeded' else 'F'}"


def _title_of(runs: Sequence[DemoRun], step: str, signature: str | None) -> str | None:
    records = [record for run in runs if step in run.steps for record in run.steps[step].attempts]
    return next((r.title for r in records if r.title and r.signature == signature), None)


def _what_ended_it(result: StepResult) -> str:
    """Tell of the action before the attempt that passed, and of the advice that it followed."""
    if len(result.attempts) < 2:
        return "passed at once"
    failed, passed = result.attempts[-2], result.attempts[-1]
    return f"{_done(passed)}: {_told(failed)}"


def _done(passed: AttemptRecord) -> str:
    applied = passed.applied
    if applied.repair is not None:
        return applied.repair
    return f"waited {applied.waited_seconds:g} s" if applied.waited_seconds > 0 else "tried again"


def _told(failed: AttemptRecord) -> str:
    because = failed.advice.because if failed.advice else failed.next_move
    return f"{because}, {failed.title}" if failed.title and failed.title not in because else because
