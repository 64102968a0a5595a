"""One markdown note as memory reads it."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final, cast, get_args

from memory.ids import item_id
from memory.notes.front_matter import Fields, split
from poimen.contracts.definition import LIBRARY
from poimen.contracts.vocabulary import ItemKind

LONGEST_SUMMARY: Final = 300
LONGEST_EXCERPT: Final = 600
_KINDS: Final = frozenset(get_args(ItemKind))
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Note:
    """A note and what it says about itself.

    `path` is relative to its folder and uses slashes; an empty `tools`, `phases` or `steps` fits any.
    `shipped` is true for a text that is ours, byte for byte: trust is never read from a note.
    """

    id: str
    path: str
    kind: ItemKind
    title: str
    text: str
    changed_at: datetime
    scope: str = LIBRARY
    state: str = "active"
    tools: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    shipped: bool = False

    @property
    def summary(self) -> str:
        """Give the first paragraph that is no heading, on one line of at most 300 characters."""
        paragraphs = (p.strip() for p in re.split(r"\n\s*\n", _HEADING.sub("", self.text)))
        line = " ".join(next((p for p in paragraphs if p), "").split())
        return line if len(line) <= LONGEST_SUMMARY else line[: LONGEST_SUMMARY - 1].rstrip() + "…"

    @property
    def excerpt(self) -> str:
        """Give the body without headings, whole lines of it, at most 600 characters."""
        kept, room = [], LONGEST_EXCERPT
        for line in (line.strip() for line in _HEADING.sub("", self.text).split("\n")):
            room -= len(line) + 1
            if room < 0:
                break
            if line:
                kept.append(line)
        return "\n".join(kept) or self.summary

    @property
    def name(self) -> str:
        """Give the file's name without its ending."""
        return self.path.rsplit("/", 1)[-1].removesuffix(".md")


def note_id(note: Note) -> str:
    """Give the id of a note, as that of any item; one of a scope of its own is another than the library's."""
    place = () if note.scope == LIBRARY else (note.scope,)
    return item_id(note.kind, "note", *place, note.id)


def read_note(text: str, path: str, changed_at: datetime, *, shipped: bool) -> Note:
    """Read a note, permissively: what it leaves out is taken from its heading and its place.

    Raises BrokenFrontMatterError when the front matter cannot be read.
    """
    fields, body = split(text)
    heading = _HEADING.search(body)
    name = path.rsplit("/", 1)[-1].removesuffix(".md")
    kind = _one(fields, "kind") or ("skill" if path.startswith("skills/") else "reference")
    return Note(
        id=_one(fields, "id") or path.removesuffix(".md"),
        path=path,
        kind=cast("ItemKind", kind if kind in _KINDS else "reference"),
        title=_one(fields, "title") or (heading.group(1) if heading else name),
        text=body.strip(),
        changed_at=changed_at,
        scope=_one(fields, "scope") or LIBRARY,
        state=_one(fields, "state") or "active",
        tools=_many(fields, "tools"),
        phases=_many(fields, "phases"),
        steps=_many(fields, "steps"),
        tags=_many(fields, "tags"),
        shipped=shipped,
    )


def _one(fields: Fields, key: str) -> str:
    value = fields.get(key, "")
    return value.strip() if isinstance(value, str) else ""


def _many(fields: Fields, key: str) -> tuple[str, ...]:
    value = fields.get(key, ())
    entries = value.split(",") if isinstance(value, str) else value
    return tuple(entry.strip() for entry in entries if entry.strip())
