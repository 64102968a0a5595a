"""Run one program under a keeper and follow it to its end: the only door to subprocess.

Everything here blocks; `in_thread` and `attend` connect it to an event loop.
"""

import asyncio
import concurrent.futures
import errno
import os
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

from executors.stray import end_group, end_marked

_KEEPER = Path(__file__).with_name("keeper.py")
_CHUNK = 256 * 1024
_DRAIN_BYTES = 4 * 1024 * 1024  # more than a pipe holds: what is left when the command has ended
_LATE_SECONDS = 6.0  # how long a keeper may take over the grace period before it counts as stuck
_BEAT_SECONDS = 1.0

ProcessEnd = Literal["exited", "signaled", "timed_out", "cancelled", "failed"]
R = TypeVar("R")


@dataclass(frozen=True)
class Launch:
    """One program to start. `env` is its whole environment, `stdin` a readable descriptor or None for no input."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    timeout_seconds: float
    grace_seconds: float = 2.0
    stdin: int | None = None
    mark: str = ""


@dataclass(frozen=True)
class Ended:
    """How a program ended. `value` is the exit code, the signal or, for `failed`, the errno of `stage`."""

    end: ProcessEnd
    value: int | None
    seconds: float
    stage: str = ""
    leftovers: int = 0
    keeper_lost: bool = False


def new_mark() -> str:
    """Return a name for one attempt that its processes carry in their environment."""
    return secrets.token_hex(16)


class Stop:
    """A wish to end a program that another thread waits for."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()

    def set(self) -> None:
        os.write(self._writer, b"!")

    def close(self) -> None:
        os.close(self.reader)
        os.close(self._writer)


def run(launch: Launch, sink: Callable[[bytes], None], stop: Stop) -> Ended:
    """Run the program, hand its merged output to `sink` and return how it ended.

    It has ended when the program itself did, whoever still holds its output; what it left running is ended too.
    Raises ValueError for an argument or variable that no program can be given.
    """
    message = _encode(launch)
    kept = _Kept(launch, message)
    try:
        return kept.follow(sink, stop)
    finally:
        kept.close()


def in_thread(work: Callable[[], R]) -> "asyncio.Future[R]":
    """Start blocking work in a thread of its own that does not hold up the interpreter's exit."""
    outcome: concurrent.futures.Future[R] = concurrent.futures.Future()

    def settle() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=settle, name="command", daemon=True).start()
    return asyncio.wrap_future(outcome)


async def attend(work: "asyncio.Future[R]", stop: Stop, heartbeat: Callable[[], None]) -> R:
    """Wait for the work with a heartbeat a second; on cancellation end it, wait for its end, and raise."""
    try:
        return await _beat_until_done(work, heartbeat)
    except asyncio.CancelledError:
        if not work.done():
            stop.set()
            await _beat_until_done(work, heartbeat)
        raise


async def _beat_until_done(work: "asyncio.Future[R]", heartbeat: Callable[[], None]) -> R:
    while not work.done():
        heartbeat()
        await asyncio.wait({work}, timeout=_BEAT_SECONDS)
    return work.result()


def _encode(launch: Launch) -> bytes:
    env = dict(launch.env) | {"POIMEN_MARK": launch.mark}
    if any(not name or "=" in name for name in env):
        raise ValueError("env has an empty name or one with an equals sign")
    fields = [str(launch.grace_seconds), mark_text(launch.mark), os.fspath(launch.cwd), str(len(launch.argv))]
    fields += [*launch.argv, *(f"{name}={value}" for name, value in env.items())]
    for field in fields:
        if "\0" in field:
            raise ValueError("an argument or variable contains U+0000")
    try:
        body = b"\0".join(os.fsencode(field) for field in fields)
    except UnicodeEncodeError:
        raise ValueError("an argument or variable contains a lone surrogate") from None
    limit = os.sysconf("SC_ARG_MAX")
    if len(body) > limit:
        raise ValueError(f"the command line has {len(body):,} bytes; at most {limit:,}")
    return len(body).to_bytes(8, "big") + body


def mark_text(mark: str) -> str:
    """Return the environment entry by which the processes of an attempt are found."""
    return f"POIMEN_MARK={mark}"


class _Kept:
    """A keeper with its command and the three pipes to them."""

    def __init__(self, launch: Launch, message: bytes) -> None:
        self._launch = launch
        self._started = time.monotonic()
        self._ended: Ended | None = None
        self._child: int | None = None
        self._lines = b""
        control, self._control = os.pipe()
        self._status, status = os.pipe()
        self._output, output = os.pipe()
        try:
            self._keeper = subprocess.Popen(  # noqa: S603  because the argv is the keeper's own
                [sys.executable, "-I", "-S", os.fspath(_KEEPER), str(control), str(status)],
                stdin=subprocess.DEVNULL if launch.stdin is None else launch.stdin,
                stdout=output,
                stderr=output,
                pass_fds=(control, status),
                env={},
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            self._close_own()
            raise
        finally:
            for theirs in (control, status, output):
                os.close(theirs)
        self._send(message)

    def follow(self, sink: Callable[[bytes], None], stop: Stop) -> Ended:
        watch = _Watch(self._launch, stop)
        watch.add(self._status, self._output)
        finished = False
        while not finished and not watch.is_late():
            ready = watch.wait()
            if self._output in ready and not self._pump(sink):
                watch.remove(self._output)
            if self._status in ready:
                finished = not self._read_status(watch.reason)
            if watch.wants_end(ready):
                self._send(b"T")
        self._end_what_is_left(finished)
        self._drain(sink)
        if self._ended is None and self._child is None:
            raise ChildProcessError(errno.ECHILD, "the command's keeper did not start")
        return self._ended or self._lost(watch.reason)

    def _lost(self, reason: ProcessEnd | None) -> Ended:
        if reason is not None:
            return Ended(reason, None, self._seconds(), keeper_lost=True)
        return Ended("signaled", signal.SIGKILL, self._seconds(), keeper_lost=True)

    def close(self) -> None:
        self._close_own()
        try:
            self._keeper.wait(_LATE_SECONDS)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()

    def _close_own(self) -> None:
        for own in (self._control, self._status, self._output):
            os.close(own)

    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def _send(self, message: bytes) -> None:
        # A pipe holds 64 KiB and the keeper reads before it does anything else, so this wait is short.
        view = memoryview(message)
        try:
            while view:
                view = view[os.write(self._control, view) :]
        except BrokenPipeError:
            return  # the status pipe tells why

    def _pump(self, sink: Callable[[bytes], None]) -> bool:
        data = os.read(self._output, _CHUNK)
        sink(data)
        return bool(data)

    def _drain(self, sink: Callable[[bytes], None]) -> None:
        # A process that could not be found may hold the pipe open and go on writing: neither wait nor read for ever.
        os.set_blocking(self._output, False)
        left = _DRAIN_BYTES
        while left > 0:
            try:
                data = os.read(self._output, _CHUNK)
            except BlockingIOError:
                return
            if not data:
                return
            sink(data)
            left -= len(data)

    def _read_status(self, reason: ProcessEnd | None) -> bool:
        data = os.read(self._status, 4096)
        *lines, self._lines = (self._lines + data).split(b"\n")
        for line in lines:
            self._take(line.decode().split(), reason)
        return bool(data)

    def _take(self, words: list[str], reason: ProcessEnd | None) -> None:
        match words:
            case ["started", pid]:
                self._child = int(pid)
            case ["failed", number, stage]:
                self._ended = Ended("failed", int(number), self._seconds(), stage=stage)
            case ["exited", status]:
                self._ended = _ended(int(status), self._seconds(), reason)
            case ["swept", count] if self._ended is not None:
                self._ended = replace(self._ended, leftovers=int(count))

    def _end_what_is_left(self, finished: bool) -> None:
        if finished and self._ended is not None:
            return
        # The keeper was killed or is stuck, so its command may still run.
        self._keeper.kill()
        if self._child is not None:
            end_group(self._child)
        end_marked(mark_text(self._launch.mark).encode())


def _ended(status: int, seconds: float, reason: ProcessEnd | None) -> Ended:
    code = os.waitstatus_to_exitcode(status)
    if reason is not None:
        return Ended(reason, None, seconds)
    return Ended("exited", code, seconds) if code >= 0 else Ended("signaled", -code, seconds)


class _Watch:
    """Waits for a program's pipes, its time-out and the wish to stop it."""

    def __init__(self, launch: Launch, stop: Stop) -> None:
        self.reason: ProcessEnd | None = None
        self._poller = select.poll()
        self._stop = stop.reader
        self._ends_at = time.monotonic() + launch.timeout_seconds
        self._grace = launch.grace_seconds
        self.add(self._stop)

    def add(self, *descriptors: int) -> None:
        for descriptor in descriptors:
            self._poller.register(descriptor, select.POLLIN)

    def remove(self, descriptor: int) -> None:
        self._poller.unregister(descriptor)

    def wait(self) -> set[int]:
        left = max(0.0, self._ends_at - time.monotonic())
        # poll() takes a 32-bit number of milliseconds.
        return {number for number, _ in self._poller.poll(min(left * 1000 + 1, 2**31 - 1))}

    def wants_end(self, ready: set[int]) -> bool:
        """Tell once whether the program is to end now, because it was stopped or its time is over."""
        if self.reason is not None:
            return False
        if self._stop in ready:
            self.reason = "cancelled"
            self.remove(self._stop)
        elif time.monotonic() >= self._ends_at:
            self.reason = "timed_out"
        else:
            return False
        self._ends_at = time.monotonic() + self._grace + _LATE_SECONDS
        return True

    def is_late(self) -> bool:
        """Tell whether the keeper should long have reported the end."""
        return self.reason is not None and time.monotonic() >= self._ends_at
