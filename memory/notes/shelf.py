"""Read the markdown notes of a vault folder, and keep them until a file changes."""

import asyncio
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from memory.notes.front_matter import BrokenFrontMatterError
from memory.notes.match import words_of
from memory.notes.note import Note, read_note
from poimen.contracts.definition import LIBRARY

LARGEST_BYTES: Final = 262_144
MOST_NOTES: Final = 5_000
DEEPEST: Final = 8


@dataclass(frozen=True, slots=True)
class NoteProblem:
    """A note that was not read, and why; `line` is None when no line is to blame."""

    path: str
    why: str
    line: int | None = None

    def __str__(self) -> str:
        where = f"{self.path} line {self.line}" if self.line is not None else self.path
        return f"{where}: {self.why}"


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a file held, and the state in which it did."""

    version: tuple[int, ...]
    found: Note | NoteProblem


@dataclass(frozen=True, slots=True)
class Shelf:
    """The notes one tenant reads, in the order of their paths, and the files that could not be read."""

    notes: tuple[Note, ...] = ()
    problems: tuple[NoteProblem, ...] = ()


@dataclass(slots=True)
class NoteVault:
    """The vault folder: `<folder>/<tenant>/…` and `<folder>/@library/…` over the notes that are shipped.

    A note of the tenant hides one of the library with the same id, and the library one that is shipped.
    """

    folder: Path
    starter: Path | None = None
    _read: dict[Path, dict[Path, _Reading]] = field(default_factory=dict)
    _reading: dict[str, asyncio.Task[Shelf]] = field(default_factory=dict)
    _shipped: frozenset[str] | None = None

    async def read(self, tenant: str) -> Shelf:
        """Give the tenant's notes. The files are read in a thread, once for all who ask at the same time."""
        task = self._reading.get(tenant)
        if task is None or task.done():
            task = asyncio.create_task(asyncio.to_thread(self.read_now, tenant))
            self._reading[tenant] = task
        # A caller whose deadline passes gives up its wait, not the reading of the others.
        return await asyncio.shield(task)

    def read_now(self, tenant: str) -> Shelf:
        """Give the tenant's notes, reading on this thread."""
        notes: dict[str, Note] = {}
        problems: list[NoteProblem] = []
        for folder in self._folders(tenant):
            here: dict[str, Note] = {}
            for relative, found in self._readings(folder, problems):
                if isinstance(found, NoteProblem):
                    problems.append(found)
                elif found.id in here:
                    problems.append(NoteProblem(relative, f"has the id of {here[found.id].path}"))
                else:
                    here[found.id] = found
            notes |= here
        active = sorted((n for n in notes.values() if n.state != "retired"), key=lambda n: (n.path, n.id))
        return Shelf(tuple(active), tuple(problems))

    def _folders(self, tenant: str) -> list[Path]:
        folders = [self.starter] if self.starter else []
        folders.append(self.folder / LIBRARY)
        # A tenant's name is a folder's name only when it is one plain path component.
        if tenant == Path(tenant).name and not tenant.startswith((".", "@")):
            folders.append(self.folder / tenant)
        return folders

    def _readings(self, folder: Path, problems: list[NoteProblem]) -> Iterator[tuple[str, Note | NoteProblem]]:
        """Read what has changed in a folder since the last time; what is no longer there is forgotten."""
        before, now = self._read.get(folder, {}), dict[Path, _Reading]()
        for path, relative, listed in _files(folder, problems):
            known = before.get(path)
            if known is None or known.version != _version(listed):
                known = self._note(path, relative, folder)
            now[path] = known
            yield relative, known.found
        self._read[folder] = now

    def _note(self, path: Path, relative: str, folder: Path) -> _Reading:
        try:
            # The file may become a link between the listing and the opening: never follow one.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            return _Reading((), NoteProblem(relative, f"cannot be opened ({error.strerror})"))
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                found: Note | NoteProblem = NoteProblem(relative, "is no regular file")
            elif status.st_size > LARGEST_BYTES:
                found = NoteProblem(relative, f"has {status.st_size:,} bytes; at most {LARGEST_BYTES:,}")
            else:
                found = self._parse(file.read(LARGEST_BYTES), relative, status.st_mtime, folder)
        return _Reading(_version(status), found)

    def _parse(self, raw: bytes, relative: str, changed: float, folder: Path) -> Note | NoteProblem:
        shipped = folder == self.starter or hashlib.sha256(raw).hexdigest() in self._shipped_texts()
        try:
            text = raw.decode("utf-8", "replace").replace("\0", "\u2400")
            note = read_note(text, relative, datetime.fromtimestamp(changed, UTC), shipped=shipped)
        except BrokenFrontMatterError as error:
            return NoteProblem(relative, error.why, error.line)
        # On the reading thread, so that no caller's event loop is held up by a note that is new.
        words_of(note)
        return note

    def _shipped_texts(self) -> frozenset[str]:
        if self._shipped is None:
            files = _files(self.starter, []) if self.starter else ()
            self._shipped = frozenset(hashlib.sha256(path.read_bytes()).hexdigest() for path, _, _ in files)
        return self._shipped


def _version(status: os.stat_result) -> tuple[int, ...]:
    # The file itself too: another one may take its place with the same length and time.
    return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)


def _status_of_file(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False) if entry.is_file(follow_symlinks=False) else None
    except FileNotFoundError:
        return None


def _files(folder: Path, problems: list[NoteProblem]) -> Iterator[tuple[Path, str, os.stat_result]]:
    """Walk the markdown files below a folder in the order of their names, never through a link."""
    pending = [(folder, "", 0)]
    found = 0
    while pending:
        place, prefix, depth = pending.pop()
        try:
            with os.scandir(place) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.append(NoteProblem(prefix or place.name, f"cannot be listed ({error.strerror})"))
            continue
        for entry in entries:
            relative = prefix + entry.name
            if entry.name.startswith("."):
                continue
            if entry.is_symlink():
                problems.append(NoteProblem(relative, "is a symbolic link; links are not followed"))
            elif entry.is_dir(follow_symlinks=False) and depth < DEEPEST:
                pending.append((Path(entry.path), relative + "/", depth + 1))
            elif entry.name.endswith(".md") and (status := _status_of_file(entry)) is not None:
                if found == MOST_NOTES:
                    problems.append(NoteProblem(relative, f"is one more than {MOST_NOTES:,} notes"))
                    return
                found += 1
                yield Path(entry.path), relative, status
