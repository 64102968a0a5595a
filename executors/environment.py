"""Gather what a verdict depends on: versions, lock files, an image's name."""

import asyncio
import hashlib
import os
import stat
import time
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
_CHUNK = 1024 * 1024  # bytes
_TOO_LATE = "took too long"


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
    All of them end within `fingerprint_seconds`; one that is not over by then is unknown too.
    """
    ends_at = time.monotonic() + settings.fingerprint_seconds
    turns = asyncio.Semaphore(_AT_ONCE)

    async def probe_one(probe: EnvironmentProbe) -> str:
        async with turns:
            stop = Stop()
            work = in_thread(lambda: _value(probe, workspace, settings, stop, ends_at))
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


def _value(
    probe: EnvironmentProbe, workspace: Path | None, settings: ExecutorSettings, stop: Stop, ends_at: float
) -> str:
    try:
        if probe.variable is not None:
            # Among the variables that commands may have are keys, and a fingerprint is kept for good.
            return _short(hashlib.sha256(os.fsencode(variable(probe.variable, settings))))
        if time.monotonic() >= ends_at:
            raise _Unknown(_TOO_LATE)
        if workspace is None:
            raise _Unknown("the workspace is not allowed here")
        if probe.file is not None:
            return _file_hash(find_inside(workspace, probe.file, "the file"), ends_at)
        if probe.command:
            return _first_line(probe.command, workspace, settings, stop, ends_at)
        raise _Unknown("the probe names no command, file or variable")
    except (_Unknown, NotAllowed) as error:
        return f"unknown: {error}"


def _file_hash(path: Path, ends_at: float) -> str:
    digest = hashlib.sha256()
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise _Unknown("not a regular file")
        with path.open("rb") as file:
            while part := file.read(_CHUNK):
                digest.update(part)
                if time.monotonic() >= ends_at:
                    raise _Unknown(_TOO_LATE)
    except FileNotFoundError:
        raise _Unknown("no such file") from None
    except OSError:
        raise _Unknown("the file cannot be read") from None
    return _short(digest)


def _short(digest: "hashlib._Hash") -> str:
    return f"sha256:{digest.hexdigest()[:_HASH_DIGITS]}"


def _first_line(argv: tuple[str, ...], cwd: Path, settings: ExecutorSettings, stop: Stop, ends_at: float) -> str:
    if not settings.command_enabled:
        raise _Unknown("the command executor is switched off here")
    ends = BothEnds()
    launch = Launch(
        argv=argv,
        cwd=cwd,
        env=settings.base_environment,
        timeout_seconds=max(0.0, min(settings.probe_seconds, ends_at - time.monotonic())),
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
