"""The state folder of a local stack: who holds it, its ports, its files."""

import asyncio
import contextlib
import fcntl
import json
import os
import secrets
import socket
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

_POLL_SECONDS = 0.05
_SHOWN = ("temporal_address", "ui_url", "postgres_address")


class StackError(Exception):
    """The local stack cannot do what was asked; the message is a sentence for people."""


class StrangersFolderError(StackError):
    """The state folder is another user's; what its files say is believed by nobody else, not even by root."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"The stack in {folder} belongs to another user.")


class StackInUseError(StackError):
    """Another process holds the state folder."""

    def __init__(self, folder: Path, holder: "Holder") -> None:
        self.holder = holder
        where = ", ".join(f"{name} {value}" for name, value in holder.addresses.items() if name in _SHOWN)
        doing = f"runs at {where}" if where else "is still starting"
        super().__init__(f"The stack in {folder} is held by process {holder.pid}; it {doing}.")


@dataclass(frozen=True)
class Holder:
    """The process a lock file names. `born` tells a reused process id apart (None where unknown)."""

    pid: int
    born: str | None
    addresses: dict[str, Any]

    @classmethod
    def current(cls) -> Self:
        """Return this process, with no addresses yet."""
        return cls(os.getpid(), birth_of(os.getpid()), {})

    def is_alive(self) -> bool:
        """Tell whether this very process, not a later one with its number, is there."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return self.born is None or birth_of(self.pid) == self.born


def birth_of(pid: int) -> str | None:
    """Return a text that differs between two processes with one number, or None where it cannot be known."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    after_name = stat.rpartition(")")[2].split()  # the name may hold spaces and brackets
    return None if after_name[0] in "ZX" else after_name[19]  # clock ticks from boot to the process's start


def own_folder(path: Path) -> Path:
    """Create a folder where it is missing, closed to other users; return it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


@dataclass(frozen=True)
class StateFolder:
    """The layout of a state folder; `root` is absolute."""

    root: Path

    @classmethod
    def at(cls, path: Path) -> Self:
        """Return the folder at a path, absolute from here on; nothing is created."""
        return cls(path.absolute())

    @classmethod
    def create(cls, path: Path) -> Self:
        """Create the folder where it is missing; others may pass through it, and find its parts closed.

        Raises `StackError` when it cannot be made there.
        """
        folder = cls.at(path)
        try:
            folder.root.mkdir(mode=0o711, parents=True, exist_ok=True)
        except OSError as error:
            raise StackError(f"The folder {folder.root} cannot be made: {error.strerror}.") from None
        return folder

    @property
    def vault(self) -> Path:
        return self.root / "vault"

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def temporal(self) -> Path:
        return self.root / "temporal"

    @property
    def opensearch(self) -> Path:
        return self.root / "opensearch"

    def keep_secret(self, name: str) -> Path:
        """Return a file with a random hexadecimal secret, made the first time, readable by its owner only."""
        file = self.root / name
        if not file.exists():
            fresh = file.with_name(name + ".new")
            fresh.unlink(missing_ok=True)
            fresh.touch(mode=0o600)
            fresh.write_text(secrets.token_hex(32))
            fresh.replace(file)
        return file

    def log(self, name: str) -> Path:
        """Return the log file of a part of the stack."""
        return self.root / "logs" / f"{name}.log"


class HeldLock:
    """An exclusive lock on a state folder. Children inherit it, so it is free when all are gone."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def publish(self, holder: Holder) -> None:
        """Write who holds the lock, and where it can be reached."""
        record = {"pid": holder.pid, "born": holder.born, "addresses": holder.addresses}
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, json.dumps(record).encode(), 0)


@contextlib.asynccontextmanager
async def hold(folder: StateFolder, wait_seconds: float = 30.0) -> AsyncIterator[HeldLock]:
    """Hold the state folder for the length of a block.

    Raises `StackInUseError` at once when a living process holds it, `StrangersFolderError` when it is another
    user's. When the holder is dead its children are still ending (a database writes its last page): waits for them,
    at most `wait_seconds`.
    """
    descriptor = _open_lock(folder.root, os.O_RDWR | os.O_CREAT)
    try:
        await _acquire(folder, descriptor, wait_seconds)
        lock = HeldLock(descriptor)
        lock.publish(Holder.current())
        try:
            yield lock
        finally:
            os.ftruncate(descriptor, 0)  # from here on it names nobody
    finally:
        os.close(descriptor)


async def _acquire(folder: StateFolder, descriptor: int, wait_seconds: float) -> None:
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + wait_seconds
    while not _try_lock(descriptor):
        holder = read_holder(folder.root)
        if holder is not None and holder.is_alive():
            raise StackInUseError(folder.root, holder)
        if loop.time() > give_up_at:
            raise StackError(f"Processes of an earlier stack in {folder.root} did not end in {wait_seconds:g} s.")
        await asyncio.sleep(_POLL_SECONDS)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_held(root: Path) -> bool:
    """Tell whether any process, a holder or a child it left, holds the folder. Raises `StrangersFolderError`."""
    try:
        descriptor = _open_lock(root, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


def read_holder(root: Path) -> Holder | None:
    """Return who the lock file names, dead or alive, or None when it names nobody. Raises `StrangersFolderError`."""
    try:
        # Without O_NONBLOCK a pipe in its place would keep the reader waiting.
        with os.fdopen(_open_lock(root, os.O_RDONLY | os.O_NONBLOCK), "rb") as lock:
            return _parse(lock.read())
    except FileNotFoundError:
        return None


def _parse(content: bytes) -> Holder | None:
    try:
        record = json.loads(content)
        return Holder(int(record["pid"]), record["born"], dict(record["addresses"]))
    except (ValueError, KeyError, TypeError):  # empty or half written: the holder is just starting
        return None


def _open_lock(root: Path, flags: int) -> int:
    """Open the lock file. Raises FileNotFoundError when there is none, `StrangersFolderError` unless it is ours."""
    try:
        descriptor = os.open(root / "lock", flags, 0o600)
    except NotADirectoryError:
        raise FileNotFoundError from None
    except (PermissionError, IsADirectoryError):
        raise StrangersFolderError(root) from None
    # Asked of what is open: a name may lead elsewhere a moment later.
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise StrangersFolderError(root)
    return descriptor


def keep_ports(folder: StateFolder, names: Sequence[str], say: Callable[[str], None]) -> dict[str, int]:
    """Return a free loopback port for each name, the one of the last start where it can be had again.

    The operating system chooses new ones. A kept port that somebody else took is replaced, and `say` told.
    """
    file = folder.root / "ports.json"
    try:
        kept = {str(name): int(port) for name, port in json.loads(file.read_text()).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        kept = {}
    ports = choose_ports(names, kept)
    for name in names:
        if kept.get(name, ports[name]) != ports[name]:
            say(f"port {kept[name]} of {name} is taken by another program; using {ports[name]}")
    file.write_text(json.dumps(kept | ports))
    return ports


def choose_ports(names: Sequence[str], wanted: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return a free loopback port for each name: the wanted one, or else one the operating system chooses."""
    with contextlib.ExitStack() as reserved:  # all are bound at once, so that no two names get one port
        return {name: reserved.enter_context(_bound_port((wanted or {}).get(name, 0))) for name in names}


@contextlib.contextmanager
def _bound_port(wanted: int) -> Iterator[int]:
    with socket.socket() as listener:
        # Without it a connection that waits out its closing time would make a free port look taken.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", wanted))
        except OSError:
            listener.bind(("127.0.0.1", 0))
        yield int(listener.getsockname()[1])
