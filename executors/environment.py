"""Gather what a verdict depends on: versions, lock files, an image's name."""

import asyncio
import hashlib
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from executors.excerpts import BothEnds
from executors.process import Ended, Launch, Stop, attend, in_thread, new_mark, run
from executors.refusal import NotAllowed
from executors.secret_values import variable
from executors.settings import ExecutorSettings
from executors.workspace import find_inside
from poimen.contracts.execution import EnvironmentProbe

_MOST_PROBES = 64  # what a fingerprint holds
_LONGEST = 512  # characters of a value
_HASH_DIGITS = 12
_AT_ONCE = 4


class _Unknown(Exception):
    """Why a probe has no value, as a few words."""


async def gather_environment(
    probes: Sequence[EnvironmentProbe],
    workspace: Path | None,
    settings: ExecutorSettings,
    heartbeat: Callable[[], None] = lambda: None,
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the value of each probe by its name, and a warning for each that has none.

    A probe that fails has the value ``unknown: REASON``, so that two machines that fail alike count as alike.
    """
    turns = asyncio.Semaphore(_AT_ONCE)

    async def probe_one(probe: EnvironmentProbe) -> str:
        async with turns:
            stop = Stop()
            work = in_thread(lambda: _value(probe, workspace, settings, stop))
            work.add_done_callback(lambda _: stop.close())
            return await attend(work, stop, heartbeat)

    asked = probes[:_MOST_PROBES]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(probe_one(probe)) for probe in asked]
    values = {probe.name: task.result() for probe, task in zip(asked, tasks, strict=True)}
    warnings = [f"environment {name} is {value}" for name, value in values.items() if value.startswith("unknown: ")]
    if len(probes) > _MOST_PROBES:
        warnings.append(f"{len(probes)} environment probes; the first {_MOST_PROBES} were taken")
    return values, tuple(warnings)


def _value(probe: EnvironmentProbe, workspace: Path | None, settings: ExecutorSettings, stop: Stop) -> str:
    try:
        if probe.variable is not None:
            return variable(probe.variable, settings)[:_LONGEST]
        if workspace is None:
            raise _Unknown("the workspace is not allowed here")
        if probe.file is not None:
            return _file_hash(find_inside(workspace, probe.file, "the file"))
        if probe.command:
            return _first_line(probe.command, workspace, settings, stop)
        raise _Unknown("the probe names no command, file or variable")
    except (_Unknown, NotAllowed) as error:
        return f"unknown: {error}"


def _file_hash(path: Path) -> str:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise _Unknown("not a regular file")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise _Unknown("no such file") from None
    except OSError:
        raise _Unknown("the file cannot be read") from None
    return f"sha256:{digest[:_HASH_DIGITS]}"


def _first_line(argv: tuple[str, ...], cwd: Path, settings: ExecutorSettings, stop: Stop) -> str:
    if not settings.command_enabled:
        raise _Unknown("the command executor is switched off here")
    ends = BothEnds()
    launch = Launch(
        argv=argv,
        cwd=cwd,
        env=settings.base_environment,
        timeout_seconds=settings.probe_seconds,
        grace_seconds=settings.grace_seconds,
        mark=new_mark(),
    )
    try:
        ended = run(launch, ends.feed, stop)
    except (OSError, ValueError):
        raise _Unknown("the command could not be started") from None
    if ended.end != "exited" or ended.value != 0:
        raise _Unknown(_reason(ended))
    lines = (line.strip() for line in ends.excerpt().head.splitlines())
    return next((line for line in lines if line), "")[:_LONGEST]


def _reason(ended: Ended) -> str:
    match ended.end:
        case "exited":
            return f"the command ended with exit code {ended.value}"
        case "failed":
            return "the command is not on the executor"
        case "timed_out":
            return "the command took too long"
        case _:
            return "the command was ended"
