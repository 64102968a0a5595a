"""Child processes of the local stack: started, watched, and never left behind.

This is the local stack's only door to other programs.
"""

import asyncio
import contextlib
import errno
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from worker.settings import environment
from worker.stack.state import StackError, own_folder

P = TypeVar("P")
R = TypeVar("R")

_KEEPER = Path(__file__).with_name("keeper.py")
_LOG_LIMIT_BYTES = 8 * 1024 * 1024
_LINE_LIMIT = 400
_POLL_SECONDS = 0.03
_IN_USE = os.strerror(errno.EADDRINUSE).lower()  # servers log what the system calls it
_MOST_CHOICES = 4


class ChildError(StackError):
    """A child ended or did not become ready; the message holds its last log lines."""


class PortTakenError(ChildError):
    """A child found a port in use that was free a moment before."""


@dataclass(frozen=True)
class ChildSpec:
    """How one child runs: `held` are descriptors it keeps open as long as it lives (the stack's lock)."""

    name: str
    argv: Sequence[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_signal: signal.Signals = signal.SIGTERM
    grace_seconds: float = 10.0
    held: Sequence[int] = ()


class Child:
    """A running child. `exited` is done, with the exit code, when the child and its keeper are gone."""

    def __init__(
        self,
        spec: ChildSpec,
        keeper: asyncio.subprocess.Process,
        liveness: int,
        *,
        log_start: int,
        started_at: float,
    ) -> None:
        self.spec = spec
        self.exited = asyncio.ensure_future(keeper.wait())
        self.keeper_pid = keeper.pid
        # Seconds since the epoch: no earlier than this could the child be heard of.
        self.started_at = started_at
        self._liveness: int | None = liveness
        self._log_start = log_start

    async def ready_when(self, probe: Callable[[], Awaitable[bool]], timeout_seconds: float) -> None:
        """Return when the probe says so; raise `ChildError` when it ends first, or at the time-out."""
        ready = asyncio.ensure_future(_until(probe))
        try:
            await asyncio.wait({ready, self.exited}, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
            if self.exited.done():
                raise self.failure()
            if not ready.done():
                reason = f"{self.spec.name} was not ready after {timeout_seconds:g} s"
                raise ChildError(self._with_log(reason))
            ready.result()
        finally:
            ready.cancel()

    def failure(self) -> ChildError:
        """Return the error for a child that ended by itself."""
        sentence = self._with_log(f"{self.spec.name} ended with exit code {self.exited.result()}")
        return (PortTakenError if _IN_USE in sentence.lower() else ChildError)(sentence)

    def death(self) -> ChildError:
        """Return the sentence about a child that was up and then ended by itself."""
        name, how = self.spec.name, _how(self.exited.result())
        return ChildError(f"{name[0].upper()}{name[1:]} died: {how}; its log is {self.spec.log}.")

    def ask_to_end(self) -> None:
        """Have the keeper end the child, and kill it after its grace. Calling again is fine."""
        if self._liveness is not None:
            os.close(self._liveness)
            self._liveness = None

    async def stop(self) -> int:
        """Ask the child to end, wait until it has, return its exit code."""
        self.ask_to_end()
        return await asyncio.shield(self.exited)

    def _with_log(self, reason: str) -> str:
        lines = read_log_end(self.spec.log, self._log_start)
        return f"{reason}. Last lines of {self.spec.log}:\n{lines}" if lines else f"{reason}; it logged nothing."


@contextlib.asynccontextmanager
async def running(spec: ChildSpec) -> AsyncIterator[Child]:
    """Run a child for the length of a block; it ends with the block, or with this process."""
    child = await start(spec)
    try:
        yield child
    finally:
        await asyncio.shield(asyncio.ensure_future(child.stop()))


@contextlib.asynccontextmanager
async def on_free_ports(
    choose: Callable[[], P], run: Callable[[P], contextlib.AbstractAsyncContextManager[R]]
) -> AsyncIterator[R]:
    """Run a server on the ports that `choose` gives for the length of a block.

    Between the choice and the start any program may take a port; then `choose` is asked again, a few times.
    """
    async with contextlib.AsyncExitStack() as stack:
        for left in reversed(range(_MOST_CHOICES)):
            try:
                server = await stack.enter_async_context(run(choose()))
                break
            except PortTakenError:
                if not left:
                    raise
        yield server


async def start(spec: ChildSpec) -> Child:
    """Start a child under its keeper; its output is appended to its log file."""
    log = _open_log(spec.log)
    started_at = time.time()
    reading, liveness = os.pipe()
    try:
        keeper = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(_KEEPER),
            str(int(spec.stop_signal)), str(spec.grace_seconds), *spec.argv,
            stdin=reading, stdout=log, stderr=log,
            env={**inherited_environment(), **spec.environment},
            pass_fds=tuple(spec.held),
            start_new_session=True,  # so that Ctrl-C reaches this process alone, which then stops in order
        )  # fmt: skip
        log_start = os.fstat(log).st_size
    except BaseException:
        os.close(liveness)
        raise
    finally:
        os.close(reading)
        os.close(log)
    return Child(spec, keeper, liveness, log_start=log_start, started_at=started_at)


async def run_once(
    argv: Sequence[str],
    *,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
    held: Sequence[int] = (),
    timeout_seconds: float = 60.0,
) -> str:
    """Run a program to its end and return its standard output; raise `ChildError` when it fails."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**inherited_environment(), **(environment or {})},
        pass_fds=tuple(held),
    )
    try:
        async with asyncio.timeout(timeout_seconds):
            out, err = await process.communicate(stdin.encode())
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if isinstance(error, TimeoutError):
            raise ChildError(f"{Path(argv[0]).name} took longer than {timeout_seconds:g} s") from None
        raise
    if process.returncode:
        tail = (err or out).decode(errors="replace").strip()[-2000:]
        raise ChildError(f"{Path(argv[0]).name} ended with exit code {process.returncode}: {tail}")
    return out.decode(errors="replace")


def inherited_environment() -> dict[str, str]:
    """Return this process's environment without the variables that would redirect a child's connections."""
    return {name: value for name, value in environment().items() if not name.startswith(("PG", "TEMPORAL_"))}


def packaged_program(distribution: str, ending: str) -> Path:
    """Return the program of an installed package, without importing the package.

    `ending` is the end of its path, such as ``bin/postgres``. Raises `StackError` when it is not installed.
    """
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.as_posix().endswith(ending):
            return Path(str(file.locate())).resolve()
    raise StackError(f"The local stack needs the package {distribution}; install poimen-memory[local].")


def read_log_end(log: Path, start_byte: int, lines: int = 15) -> str:
    """Return the last lines written to a log after `start_byte`, or an empty text."""
    try:
        with log.open("rb") as file:
            file.seek(max(start_byte, log.stat().st_size - 16_384))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(line[:_LINE_LIMIT] for line in text.strip().splitlines()[-lines:])


def _open_log(log: Path) -> int:
    own_folder(log.parent)
    if log.exists() and log.stat().st_size > _LOG_LIMIT_BYTES:
        log.replace(log.with_suffix(".old.log"))
    return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _how(code: int) -> str:
    """Name an exit code and the signal behind it, the child's (128 and its number) or the keeper's own (below 0)."""
    try:
        by = f" ({signal.Signals(-code if code < 0 else code - 128).name})"
    except ValueError:
        by = ""
    return f"exit code {code}{by}"


async def _until(probe: Callable[[], Awaitable[bool]]) -> None:
    while not await probe():  # noqa: ASYNC110  because other processes set no event
        await asyncio.sleep(_POLL_SECONDS)
