"""`poimen up`: the local stack in the foreground."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from worker.cli.output import one_line
from worker.exits import OK, USAGE, ExitError
from worker.local import running_stack
from worker.stack.up import Addresses, Progress

PARTS = 3  # without OpenSearch


async def run(arguments: argparse.Namespace) -> int:
    """Keep the stack until Ctrl-C or SIGTERM, or until a part of it dies."""
    for root in arguments.workspace or ():
        if not root.is_dir():
            raise ExitError(f"--workspace {one_line(str(root))} is no folder; commands need one to run in.", USAGE)
    stop, ready = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    keeping = asyncio.create_task(_keep(arguments, ready, stop))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([keeping, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not ready.is_set() and not keeping.done():
        keeping.cancel()  # it is still starting: what is up by then goes down in order
        await asyncio.gather(keeping, return_exceptions=True)
        return OK
    await keeping
    return OK


def progress_lines(first: int, parts: int) -> Progress:
    """Return a printer of one line a part, as in "[2/4] PostgreSQL   2 s  127.0.0.1:54017", on standard error."""
    number = first

    def show(name: str, detail: str, seconds: float) -> None:
        nonlocal number
        print(f"[{number}/{parts}] {name:<10} {seconds:3.0f} s  {detail}", file=sys.stderr, flush=True)
        number += 1

    return show


async def _keep(arguments: argparse.Namespace, ready: asyncio.Event, stop: asyncio.Event) -> None:
    def warn(sentence: str) -> None:
        print(sentence, file=sys.stderr, flush=True)

    roots = arguments.workspace or [Path.cwd()]
    progress = progress_lines(1, PARTS + arguments.opensearch)
    async with running_stack(
        arguments.state, workspaces=roots, opensearch=arguments.opensearch, progress=progress, warn=warn
    ) as addresses:
        ready.set()
        print(addresses.to_json() if arguments.json else _welcome(addresses), flush=True)
        await stop.wait()


def near(path: Path) -> Path:
    """Return a path as it is typed in this folder."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _welcome(addresses: Addresses) -> str:
    search = (f"OpenSearch   {addresses.opensearch_url}",) if addresses.opensearch_url else ()
    return "\n".join(
        (
            f"Temporal UI  {addresses.ui_url}",
            f"temporal     --address {addresses.temporal_address} --task-queue {addresses.task_queue}",
            *search,
            f"vault        {addresses.vault}",
            f"Try          {near(Path(sys.executable).with_name('poimen'))} run FILE",
            "Ctrl-C ends it; everything is kept.",
        )
    )
