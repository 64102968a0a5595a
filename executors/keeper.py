"""Start one command and let nothing of it outlive the attempt or the worker.

Run as ``python -I -S keeper.py CONTROL STATUS``; the command's input and output are the keeper's own. On CONTROL comes
the launch, then one byte for each wish to end the command; its end of file means that the worker is gone. On STATUS go
lines: ``started PID``, ``failed ERRNO STAGE``, ``exited WAIT_STATUS`` and last ``swept COUNT``.

Imports stay few, because every command waits for them.
"""

import os
import select
import signal
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36
_POLITE_SECONDS = 0.5  # what a left-over process gets between TERM and KILL
_SWEEP_SECONDS = 3.0  # a process in an uninterruptible wait must not hold the attempt for ever
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE)


def main() -> None:
    control, status = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(control, False)
    os.set_inheritable(status, False)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    grace, mark, cwd, argv, env = _read_launch(control)
    wake = _wake_on_child()
    adopting = _adopt_orphans()
    child = _spawn(argv, cwd, env, status)
    if child is None:
        return
    _let_go_of_streams()
    code = _watch(child, control, wake, grace, mark)
    if code is None:
        _sweep(child, mark, adopting, polite=False)
        return
    _tell(status, f"exited {code}")
    _tell(status, f"swept {_sweep(child, mark, adopting, polite=True)}")


def _read_launch(control: int) -> tuple[float, bytes, bytes, list[bytes], dict[bytes, bytes]]:
    size = int.from_bytes(_read_exactly(control, 8), "big")
    grace, mark, cwd, count, *rest = _read_exactly(control, size).split(b"\0")
    argv, pairs = rest[: int(count)], rest[int(count) :]
    env = dict(pair.split(b"=", 1) for pair in pairs)
    return float(grace), mark, cwd, argv, env


def _read_exactly(control: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = os.read(control, size - len(data))
        if not part:
            os._exit(0)
        data += part
    return bytes(data)


def _wake_on_child() -> int:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


def _adopt_orphans() -> bool:
    """Become the parent of every orphaned descendant, so that none can leave this process's tree."""
    try:
        import ctypes  # noqa: PLC0415  because some builds of Python lack it

        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, AttributeError, OSError):
        return False


def _spawn(argv: list[bytes], cwd: bytes, env: dict[bytes, bytes], status: int) -> int | None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _become(argv, cwd, env, writer, status)
    os.close(writer)
    # Empty when exec closed the pipe: the command runs.
    failure = os.read(reader, 64)
    os.close(reader)
    if not failure:
        return child
    os.waitpid(child, 0)
    _tell(status, f"failed {failure.decode()}")
    return None


def _become(argv: list[bytes], cwd: bytes, env: dict[bytes, bytes], failed: int, status: int) -> None:
    stage = "cwd"
    try:
        # A group of its own: a command that signals its group must not end the keeper.
        os.setpgid(0, 0)
        for number in (*_IGNORED, signal.SIGCHLD, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)  # an ignored signal would stay ignored over exec
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.chdir(cwd)
        stage = "exec"
        # From here, not from the keeper: the command may stop or kill that before it comes to tell.
        _tell(status, f"started {os.getpid()}")
        os.execvpe(argv[0], argv, env)  # noqa: S606  because starting what the caller named is the purpose
    except OSError as error:
        os.write(failed, f"{error.errno} {stage}".encode())
    finally:
        os._exit(127)


def _let_go_of_streams() -> None:
    # While the keeper held the output's end, the worker would never see its end of file.
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)


def _tell(status: int, line: str) -> None:
    try:
        os.write(status, line.encode() + b"\n")
    except OSError:
        return  # the worker is gone; the sweep matters more than the report


def _watch(child: int, control: int, wake: int, grace: float, mark: bytes) -> int | None:
    """Return the command's wait status, or None when the worker is gone."""
    poller = select.poll()  # select() would refuse descriptors above 1023
    poller.register(control, select.POLLIN)
    poller.register(wake, select.POLLIN)
    kill_at: float | None = None
    while True:
        wait = None if kill_at is None else max(0.0, kill_at - time.monotonic()) * 1000
        ready = {number for number, _ in poller.poll(wait)}
        if wake in ready:
            os.read(wake, 512)
        code = _reap(child)
        if code is not None:
            return code
        if control in ready:
            if not os.read(control, 1):
                return None
            _signal_all(child, mark, signal.SIGTERM)
            kill_at = kill_at or time.monotonic() + grace
        if kill_at is not None and time.monotonic() >= kill_at:
            _signal_all(child, mark, signal.SIGKILL)
            kill_at = time.monotonic() + 0.1


def _reap(child: int) -> int | None:
    """Collect whoever ended, adopted orphans included; return the command's wait status once it is among them."""
    code = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if ended == 0:
            return code
        if ended == child:
            code = status


def _sweep(child: int, mark: bytes, adopting: bool, *, polite: bool) -> int:
    """End what is left of the command and return how many processes that were."""
    if adopting and polite and _childless():
        return 0
    seen: set[int] = set()
    start = time.monotonic()
    while True:
        left = _descendants(mark)
        seen |= left
        spent = time.monotonic() - start
        number = signal.SIGTERM if polite and spent < _POLITE_SECONDS else signal.SIGKILL
        if not left or spent > _SWEEP_SECONDS:
            if not adopting:
                _signal_group(child, signal.SIGKILL)  # all there is where no /proc can be searched
            return len(seen)
        for pid in left:
            _send(pid, number)
        time.sleep(0.01)
        _reap(child)


def _childless() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _signal_all(child: int, mark: bytes, number: int) -> None:
    _signal_group(child, number)
    for pid in _descendants(mark):
        if _group_of(pid) != child:
            _send(pid, number)


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except OSError:
        return


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        return


def _descendants(mark: bytes) -> set[int]:
    """Find the living processes below this one, and those that carry the mark in their environment."""
    parents: dict[int, int] = {}
    marked: set[int] = set()
    for pid in _processes():
        parent = _living_parent(pid)
        if parent is None:
            continue
        parents[pid] = parent
        if mark in _environment(pid):
            marked.add(pid)
    own = os.getpid()
    return {pid for pid in parents if pid in marked or _is_below(pid, own, parents)} - {own}


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  because pathlib is slow to import
    except OSError:
        return []


def _living_parent(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  because pathlib is slow to import
            # The name in parentheses may itself hold spaces and parentheses.
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except (OSError, ValueError):
        return None
    return None if state in (b"Z", b"X") else int(parent)


def _environment(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123  because pathlib is slow to import
            return file.read()
    except OSError:
        return b""


def _is_below(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    for _ in range(len(parents)):
        parent = parents.get(pid)
        if parent is None:
            return False
        if parent == ancestor:
            return True
        pid = parent
    return False


if __name__ == "__main__":
    main()
