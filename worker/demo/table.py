"""The one table: attempts by step and run, and why the last run with memory differs. Pure."""

import re
import textwrap
from collections.abc import Sequence

from poimen.contracts.memory_calls import AttemptRecord, Prevention
from worker.cli.output import one_line
from worker.demo.runs import DemoRun

WIDTH = 100
_GAP = "  "
_COUNTS = re.compile(r"worked \d+ of \d+")
_LONGEST_WHY_LINES = 2
_LONGEST_TITLE = 50


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
    """Say from the records what the last run with memory knew of the step, since when, and what it did about it.

    As in "known since observe: address in use; repair free-port ran first, worked 2 of 2".
    """
    last = last_with_memory(runs)
    result = last.steps.get(step) if last else None
    if result is None:
        return "not run" if last else ""
    if result.prevention is not None:
        known = _known(runs, step, result.prevention.signature)
        return _sentence(known, _prevented(result.prevention, known))
    if result.end != "succeeded":
        return _sentence(_known(runs, step, _signature_of(result.attempts[-1:])), result.reason)
    if len(result.attempts) < 2:
        return "passed at once"
    known = _known(runs, step, _signature_of(result.attempts[-2:-1]))
    return _sentence(known, _what_ended_it(result.attempts[-2], result.attempts[-1]))


def _sentence(known: str, done: str) -> str:
    return f"{known}; {done}" if known else done


def _with_why(start: str, why: str) -> list[str]:
    room = WIDTH - len(start) - 3
    if not why or room < 20:
        return [start]
    told = [why]
    if len(why) > room:
        known, mark, done = why.partition("; ")
        halves = [f"{known};", done] if mark else [why]
        told = [line for half in halves for line in _lines(half, room, _LONGEST_WHY_LINES // len(halves))]
    return [f"{start}   {told[0]}", *(f"{'':{len(start)}}   {more}" for more in told[1:])]


def _lines(text: str, room: int, most: int) -> list[str]:
    return textwrap.wrap(text, room, max_lines=most, placeholder=" …", break_on_hyphens=False)


def _cell(run: DemoRun, step: str) -> str:
    result = run.steps.get(step)
    if result is None:
        return "-"
    return f"{result.attempts_made}{'' if result.end == 'succeeded' else 'F'}"


def _known(runs: Sequence[DemoRun], step: str, signature: str | None) -> str:
    """Name a failure of the step and the run that saw it first; "" for one that no run tells of."""
    tried = [(run, record) for run in runs if step in run.steps for record in run.steps[step].attempts]
    failed = [(u, r) for u, r in tried if r.outcome == "failed" and r.title and r.signature == signature]
    if not failed:
        return ""
    run, record = failed[0]
    since = "seen for the first time" if run is last_with_memory(runs) else f"known since {run.name}"
    return f"{since}: {one_line(str(record.title), _LONGEST_TITLE)}"


def _signature_of(records: Sequence[AttemptRecord]) -> str | None:
    return records[0].signature if records else None


def _prevented(prevention: Prevention, known: str) -> str:
    counts = _COUNTS.search(prevention.because)
    if counts and known:
        return f"repair {prevention.repair} ran first, {counts[0]}"
    return f"repair {prevention.repair} ran first: {prevention.because}"


def _what_ended_it(failed: AttemptRecord, passed: AttemptRecord) -> str:
    """Tell of the action before the attempt that passed, and of the advice that it followed."""
    because = failed.advice.because if failed.advice else failed.next_move
    applied = passed.applied
    if applied.repair is not None:
        counts = _COUNTS.search(because)
        return f"repair {applied.repair} {counts[0]}" if counts else f"repair {applied.repair}: {because}"
    waited = f"waited {applied.waited_seconds:g} s" if applied.waited_seconds > 0 else "tried again"
    return f"{waited}: {because}"
