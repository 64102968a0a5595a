"""`poimen repair --dry-run`: what memory would do if a step failed so again."""

import argparse
from collections.abc import Sequence

from memory.next_time import NextTime, next_time
from memory.telling import advised
from poimen.contracts.memory_calls import RecoveryStep
from poimen.contracts.message import encode
from worker.cli.opened import opened_stores, operator
from worker.cli.output import one_line, print_json, wrapped
from worker.cli.recovery_lines import recovery_lines
from worker.exits import USAGE, ExitError

REFUSED = (
    "poimen repair runs nothing: a repair is run by the harness, in the step's own workspace, when the step fails. "
    "Give --dry-run to see which one it would be."
)


async def run(arguments: argparse.Namespace) -> int:
    """Rehearse the step's latest failure; without --dry-run refuse."""
    if not arguments.dry_run:
        raise ExitError(REFUSED, USAGE)
    run_name, slash, step = arguments.step.rpartition("/")
    if not (slash and run_name and step):
        raise ExitError("Name a run and its step as RUN/STEP.", USAGE)
    async with opened_stores() as stores:
        told = await next_time(stores, operator(stores, arguments.tenant), run_name, step)
    if arguments.json:
        print_json({"run": told.run, "step": told.step, "dry_run": True, **encode(told.analysis)})
    else:
        print(_text(told))
    return 0


def _worth_telling(steps: Sequence[RecoveryStep]) -> list[RecoveryStep]:
    """Leave out waits that nobody has tried, and a wait that stands there twice."""
    told = {(step.action, step.repair, step.delay_seconds): step for step in reversed(steps)}
    return [step for step in steps if step in told.values() and (step.tried or step.repair is not None)]


def _text(told: NextTime) -> str:
    analysis = told.analysis
    lines = [
        f"If {told.step} failed again as in {told.run}: {one_line(analysis.title)} ({analysis.signature[:7]}…)",
        wrapped(f"memory would say {advised(analysis.advice)}: {analysis.advice.because}"),
        *recovery_lines(_worth_telling(analysis.recovery_steps)),
        "Nothing was run, and nothing is recorded.",
    ]
    return "\n".join(lines)
