"""Keep one program: start it, and end it when standard input ends, whoever held the other side.

Run as a script: ``keeper.py STOP_SIGNAL GRACE_SECONDS PROGRAM [ARGUMENT...]``. The starter holds the
writing side of standard input, so that its own death, by whatever signal, reads here as end of file.
One process more than a parent-death signal alone, because that signal follows the *thread* that
forked and exists on Linux only. Uses nothing but the standard library, so that it starts in no time.
"""

import contextlib
import os
import select
import signal
import sys
import time
from types import FrameType

_PR_SET_PDEATHSIG = 1
_NOTED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(arguments: list[str]) -> int:
    """Run the program to its end or the starter's; return its exit code (128 + number for a signal)."""
    stop_signal, grace, program = int(arguments[0]), float(arguments[1]), arguments[2:]
    wake = _wake_on_signals()
    keeper = os.getpid()
    # A signal that came between the fork and the program's start would be noted there, and lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, _NOTED)
    child = os.fork()
    if child == 0:
        _become(program, keeper, stop_signal)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _NOTED)
    watched = [sys.stdin.fileno(), wake]
    kill_at: float | None = None
    while (code := _exit_code(child)) is None:
        left = None if kill_at is None else max(0.0, kill_at - time.monotonic())
        ready = select.select(watched, [], [], left)[0]
        woken = os.read(wake, 512) if wake in ready else b""
        if kill_at is None and (watched[0] in ready or signal.SIGTERM in woken):
            watched = [wake]
            kill_at = time.monotonic() + grace
            os.kill(child, stop_signal)
        elif kill_at is not None and time.monotonic() >= kill_at:
            os.killpg(child, signal.SIGKILL)
            kill_at = time.monotonic() + grace
    with contextlib.suppress(ProcessLookupError, PermissionError):  # what the program left in its group
        os.killpg(child, signal.SIGKILL)
    return code


def _wake_on_signals() -> int:
    """Return a descriptor that becomes readable on SIGCHLD and SIGTERM; ignore the terminal's signals."""

    def note(_number: int, _frame: FrameType | None) -> None:
        """Do nothing; the wake-up descriptor carries the number. Not SIG_IGN: a program inherits that."""

    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    for number in _NOTED:
        signal.signal(number, note)
    signal.set_wakeup_fd(writing)
    return reading


def _become(program: list[str], keeper: int, stop_signal: int) -> None:
    """Turn the forked process into the program: own group, no input, ended when the keeper is killed."""
    try:
        os.setpgid(0, 0)
        for number in _NOTED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _NOTED)
        if sys.platform == "linux":
            import ctypes  # noqa: PLC0415  because it costs 10 ms that only this branch needs

            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, stop_signal, 0, 0, 0)
        if os.getppid() != keeper:  # it died before the line above
            os._exit(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.execvp(program[0], program)  # noqa: S606  because it takes an argument list, never a shell
    except OSError as error:
        os.write(2, f"cannot start {program[0]}: {error.strerror}\n".encode())
        os._exit(127)


def _exit_code(child: int) -> int | None:
    pid, status = os.waitpid(child, os.WNOHANG)
    if pid == 0:
        return None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
