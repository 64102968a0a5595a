"""`poimen demo`: run one small release with and without memory, and show what memory changed."""

import argparse
import asyncio
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from temporalio.client import Client

from poimen.contracts.definition import WorkflowDef
from poimen.contracts.message import encode
from poimen.contracts.vocabulary import MemoryMode
from worker.cli.output import print_json
from worker.cli.run import ui_link
from worker.cli.up import near
from worker.definitions import load_definition
from worker.demo.progress import RunsLine
from worker.demo.promise import not_held
from worker.demo.runs import DemoRun, RunPlan, is_known, run_once
from worker.demo.stack import demo_stack, is_own
from worker.demo.starting_state import EXAMPLE, starting_state
from worker.demo.table import last_with_memory, render_table, why_differs
from worker.exits import FAILED, OK, ExitError
from worker.found_stack import settings_of
from worker.stack.up import Addresses
from worker.temporal_client import connect

MOST_RUNS_WITH_MEMORY = 4


async def run(arguments: argparse.Namespace) -> int:
    """Start a stack or use the one here, run, print the table; 0 if memory kept what is promised, else 1.

    On a terminal a stack of its own stays up until Enter. Raises ExitError, StackError.
    """
    definition = _definition()
    root = arguments.state.absolute() / "demo"
    async with demo_stack(arguments.state, root, opensearch=arguments.opensearch) as addresses:
        client = await connect(settings_of(addresses), quiet=True)
        folder = await _new_folder(client, root, definition.name)
        definition = definition.model_copy(update={"scope": f"demo/{folder.name}"})
        plan = RunPlan(client, addresses.task_queue, definition, folder)
        runs = await _runs(plan, Path(addresses.state) / "logs" / "demo.log", addresses)
        broken = not_held(definition, runs)
        _show(addresses, definition, runs, broken, as_json=arguments.json)
        if not arguments.json and is_own(addresses):
            await _until_enter()
    return FAILED if broken else OK


def _definition() -> WorkflowDef:
    if not EXAMPLE.is_dir():
        raise ExitError("The demo needs examples/flaky-release, which is in the repository and in no package.")
    return load_definition(EXAMPLE / "release.yaml")


async def _new_folder(client: Client, root: Path, name: str) -> Path:
    """Make the folder of a new demonstration: NAME, or NAME-2, NAME-3… where the state folder has some already.

    Its name is that of its runs and of its scope, too, so that it starts without what earlier ones learned.
    """
    for number in itertools.count(1):
        folder = root / (name if number == 1 else f"{name}-{number}")
        if folder.exists() or await is_known(client, f"{folder.name}-observe"):
            continue
        folder.mkdir(parents=True)
        return folder
    raise AssertionError  # because there is always a next number


async def _runs(plan: RunPlan, log: Path, addresses: Addresses) -> list[DemoRun]:
    """Watch once, then listen until nothing changes any more, then run without memory."""
    line = RunsLine()

    async def one(name: str, memory: MemoryMode) -> DemoRun:
        line.now(name, "…")
        look = (lambda doing: line.now(name, doing)) if line.live else None
        async with starting_state(plan.folder / name, log):
            ended = await run_once(plan, name, memory, look)
        line.ended(name, ended.seconds)
        return ended

    try:
        runs = [await one("observe", "observe")]
        _check_first(runs[0], addresses)
        for number in range(1, MOST_RUNS_WITH_MEMORY + 1):
            runs.append(await one(f"on-{number}", "on"))
            # One run like the one that watched is no end yet: what was seen only once may not prevent anything.
            if number > 1 and runs[-1].comes_to() == runs[-2].comes_to():
                break
        return [*runs, await one("off", "off")]
    finally:
        line.close()


def _check_first(first: DemoRun, addresses: Addresses) -> None:
    if first.end == "succeeded" or is_own(addresses):
        return
    raise ExitError(
        f"{first.workflow_id} {first.end}: {first.reason}. Perhaps the stack of process {addresses.pid} lets commands "
        "run elsewhere only (--workspace): `poimen down` ends it, and the demo then starts its own."
    )


def _show(
    addresses: Addresses, definition: WorkflowDef, runs: Sequence[DemoRun], broken: Sequence[str], *, as_json: bool
) -> None:
    last = last_with_memory(runs)
    assert last is not None
    links = {run.name: ui_link(settings_of(addresses), addresses.temporal_namespace, run.workflow_id) for run in runs}
    if as_json:
        shown = [_as_json(run, links[run.name]) for run in runs]
        why = {step: why_differs(runs, step) for step in last.steps}
        print_json({"held": not broken, "not_held": broken, "scope": definition.scope, "why": why, "runs": shown})
        return
    print(f"\n{render_table(runs)}")
    print("Only memory differed." if not broken else "\n".join(f"Not held: {sentence}" for sentence in broken))
    print(f"Scope    {definition.scope}, in which nothing was known before")
    print(f"Look at  {links[last.name]}")
    print(f"Notes    {near(Path(addresses.vault))}")
    print(f"Ask      {near(Path(sys.executable).with_name('poimen'))} why {last.workflow_id}/{_asked_about(last)}")


def _as_json(run: DemoRun, link: str | None) -> dict[str, Any]:
    steps = [encode(result) for result in run.steps.values()]
    return {
        "name": run.name,
        "workflow_id": run.workflow_id,
        "link": link,
        "memory": run.memory,
        "end": run.end,
        "reason": run.reason,
        "attempts": run.attempts,
        "seconds": run.seconds,
        "steps": steps,
    }


def _asked_about(last: DemoRun) -> str:
    """Name a step that memory did something for."""
    prevented = [step for step, result in last.steps.items() if result.prevention is not None]
    return (prevented or list(last.steps))[-1]


async def _until_enter() -> None:
    """Wait for Enter on a terminal; elsewhere nobody is there to press it."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("`make up` opens this history again.")
        return
    print("Enter ends it; `make up` opens this history again.", flush=True)
    entered = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, entered.set)  # a thread that reads would outlive Ctrl-C
    try:
        await entered.wait()
    finally:
        loop.remove_reader(sys.stdin)
