"""Bring the vault's notes into the index: templates, domain knowledge, skills, and what people write down."""

from collections.abc import Sequence
from typing import Final

from memory.aside import aside
from memory.items import NewItem
from memory.journal import EventKind, Origin
from memory.masking import Masker
from memory.notes.match import place_tags
from memory.notes.note import Note, note_id
from memory.postgres import load_queries, tenant_transaction
from memory.producers.keep import LONGEST_TEXT, LONGEST_TITLE, keep_item, shortened, withdraw
from memory.stores import Stores

SQL = load_queries(__package__, "notes.sql")
SECONDS: Final = 10.0
LONGEST_SCOPE: Final = 256


class NoteKeeper:
    """Keeps a tenant's items in step with its notes; what it brought once, it looks at again when it has changed."""

    def __init__(self, stores: Stores, tenant: str) -> None:
        self._stores = stores
        self._tenant = tenant
        # None until the items of notes that went while nobody looked are known.
        self._kept: dict[str, Note] | None = None

    async def keep(self) -> int:
        """Bring what is new or changed, withdraw what is gone, and return how many items that changed.

        While a note or a folder cannot be read nothing is withdrawn: what is behind it may be there still.
        """
        shelf = await self._stores.notes.read(self._tenant)
        wanted = {note_id(note): note for note in shelf.notes if 0 < len(note.scope) <= LONGEST_SCOPE}
        kept = self._kept if self._kept is not None else {}
        known = set(kept) if self._kept is not None else await self._on_record()
        changed = 0
        for item, note in wanted.items():
            if kept.get(item) != note:
                changed += await self._bring(note)
        gone = [] if shelf.problems or not wanted else sorted(known - set(wanted))
        changed += await self._withdraw(gone)
        left = {item: note for item, note in kept.items() if item not in wanted and item not in gone}
        self._kept = left | wanted
        return changed

    async def _on_record(self) -> set[str]:
        async with tenant_transaction(self._stores.pool, self._tenant, deadline_seconds=SECONDS) as tx:
            return {row["id"] for row in await tx.rows(SQL["items_of_notes"])}

    async def _bring(self, note: Note) -> bool:
        item = await aside(len(note.text), _item, note, self._stores.masker)
        origin = Origin.IMPORT if note.shipped else Origin.VAULT_EDITOR
        async with tenant_transaction(self._stores.pool, self._tenant, deadline_seconds=SECONDS) as tx:
            return await keep_item(tx, item, EventKind.NOTE_READ, origin)

    async def _withdraw(self, gone: Sequence[str]) -> int:
        withdrawn = 0
        for item in gone:
            async with tenant_transaction(self._stores.pool, self._tenant, deadline_seconds=SECONDS) as tx:
                withdrawn += await withdraw(tx, item, "its note is gone")
        return withdrawn


def _item(note: Note, masker: Masker) -> NewItem:
    """Give a note as an item: a reference, whatever level it claims, and trusted only when it is ours."""
    return NewItem(
        id=note_id(note),
        scope=note.scope,
        kind=note.kind,
        level="R",
        title=shortened(masker.mask(note.title).text, LONGEST_TITLE),
        text=shortened(masker.mask(note.text).text, LONGEST_TEXT),
        origin=(Origin.IMPORT if note.shipped else Origin.VAULT_EDITOR).value,
        trust="reviewed" if note.shipped else "unverified",
        tags=tuple(masker.mask(tag).text for tag in (*place_tags(note), *note.tags)),
    )
