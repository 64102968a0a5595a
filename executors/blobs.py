"""Whole outputs as files named by their content, a folder for each tenant."""

import errno
import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from executors.settings import ExecutorSettings
from poimen.contracts.execution import OutputReference

_NOBODY = "-"
# Small letters only: some file systems do not tell them from capitals.
_PLAIN = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,62}")


def stored_outputs(settings: ExecutorSettings) -> Path:
    """Return the folder of all tenants' outputs."""
    return settings.state_dir / "blobs"


def tenant_store(settings: ExecutorSettings, tenant: str | None) -> "BlobStore":
    """Return the store of one tenant; callers that name none share one."""
    return BlobStore(stored_outputs(settings) / _folder_name(tenant), settings.host)


def _folder_name(tenant: str | None) -> str:
    if tenant is None:
        return _NOBODY
    if _PLAIN.fullmatch(tenant):
        return tenant
    # A tenant may have any name; this one might be no folder's, or lead out of the store.
    return f"~{hashlib.sha256(tenant.encode()).hexdigest()[:32]}"


class BlobStore:
    """A folder of files named by the SHA-256 of what they hold."""

    def __init__(self, folder: Path, host: str) -> None:
        self._folder = folder
        self._host = host

    def path(self, sha256: str) -> Path:
        return self._folder / sha256[:2] / sha256

    def find(self, reference: OutputReference) -> Path:
        """Return the file of a stored output. Raises OSError when it is not here."""
        path = self.path(reference.sha256)
        if not path.is_file():
            raise FileNotFoundError(errno.ENOENT, "a stored output is not on this executor any more")
        return path

    def keep(self, data: bytes, partial: Path) -> OutputReference:
        """Store data that is at hand. Raises OSError."""
        writer = BlobWriter(partial, limit=len(data))
        writer.write(data)
        reference = writer.commit(self)
        if reference is None:
            raise OSError(writer.problem or "nothing to store")
        return reference

    def adopt(self, partial: Path, sha256: str, size: int) -> OutputReference:
        """Move a finished file of this file system into the store. Raises OSError."""
        target = self.path(sha256)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _opened(target.parent, fcntl.LOCK_SH) as folder:
            partial.replace(target)
            os.fsync(folder)
        return OutputReference(sha256=sha256, host=self._host, bytes=size)


class BlobWriter:
    """Streams one output to a file. A full disk or the limit ends the storing, never the stream.

    `problem` is a sentence about what is not in the store, or None.
    """

    def __init__(self, partial: Path, limit: int) -> None:
        self.problem: str | None = None
        self._partial = partial
        self._limit = limit
        self._size = 0
        self._hash = hashlib.sha256()
        self._file: int | None = None
        try:
            self._file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self._give_up(error)

    def write(self, data: bytes) -> None:
        part = data[: self._limit - self._size]
        if self._file is None:
            return
        try:
            _write_all(self._file, part)
        except OSError as error:
            self._give_up(error)
            return
        self._hash.update(part)
        self._size += len(part)
        if len(part) < len(data):
            self.problem = f"the output was stored up to {self._limit:,} bytes; the rest was dropped"

    def commit(self, store: BlobStore) -> OutputReference | None:
        """Put what was written into the store and return its name; None when nothing is stored."""
        if self._file is None:
            return None
        try:
            # A name that stands for a content must not be found empty after a power cut.
            os.fsync(self._file)
            os.close(self._file)
            self._file = None
            if self._size:
                return store.adopt(self._partial, self._hash.hexdigest(), self._size)
        except OSError as error:
            self._give_up(error)
        self._partial.unlink(missing_ok=True)
        return None

    def close(self) -> None:
        """Drop what was not committed."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._partial.unlink(missing_ok=True)

    def _give_up(self, error: OSError) -> None:
        self.problem = f"the whole output is not in the store: {os.strerror(error.errno or 0)}"
        self.close()


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep outputs from being stored in a folder, so that what looks old is not stored again meanwhile."""
    with _opened(folder, fcntl.LOCK_EX):
        yield


@contextmanager
def _opened(folder: Path, lock: int) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, lock)
        yield descriptor
    finally:
        os.close(descriptor)
