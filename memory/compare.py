"""Compare a generation of the index with what is on record, page by page, side by side in one order."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from memory.postgres import tenant_transaction
from memory.stores import Stores
from memory.vectors.documents import documents_after
from memory.vectors.index import Document, Entry

PAGE: Final = 500
SECONDS: Final = 30.0
Key = tuple[str, str]
Part = Literal["journal", "items", "index", "vault"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not in one place as it is in another; `detail` is a sentence without its content."""

    part: Part
    scope: str
    id: str
    detail: str


@dataclass(frozen=True, slots=True)
class Compared:
    """One page: where the next begins (None behind the last), how much there was on both sides, what differs."""

    after: Key | None
    documents: int
    entries: int
    differing: tuple[tuple[Difference, Document | None], ...] = ()


async def compare_page(stores: Stores, tenant: str, number: int, after: Key | None, limit: int = PAGE) -> Compared:
    """Compare what lies behind `after`, in order of (scope, id), as far as both sides could be read at once."""
    entries = await stores.index.entries(tenant, number, after=after, limit=limit, deadline_seconds=SECONDS)
    async with tenant_transaction(stores.pool, tenant, deadline_seconds=SECONDS) as tx:
        documents = await documents_after(tx, after, limit)
    full = [_key(side[-1]) for side in (entries, documents) if len(side) == limit]
    upto = min(full, default=None)
    entries = [entry for entry in entries if upto is None or _key(entry) <= upto]
    documents = [one for one in documents if upto is None or _key(one) <= upto]
    return Compared(upto, len(documents), len(entries), tuple(differing(documents, entries)))


async def compare_pages(stores: Stores, tenant: str, number: int) -> AsyncIterator[Compared]:
    """Compare a whole generation; at most two pages are held at once."""
    after: Key | None = None
    while True:
        page = await compare_page(stores, tenant, number, after)
        yield page
        if page.after is None:
            return
        after = page.after


def differing(documents: Sequence[Document], entries: Sequence[Entry]) -> Iterator[tuple[Difference, Document | None]]:
    """Give what differs between what is on record and what an index has, with the document if there is one. Pure."""
    expected = {_key(document): document for document in documents}
    found = {_key(entry): entry for entry in entries}
    for key in sorted(expected.keys() | found.keys()):
        document = expected.get(key)
        said = _said(document, found.get(key))
        if said:
            yield Difference("index", *key, said), document


def _said(document: Document | None, entry: Entry | None) -> str | None:
    if document is None:
        return "is in the index and not on record"
    if entry is None:
        return "is not in the index" if document.state == "active" else f"is {document.state}, and has no tombstone"
    if entry.version != document.version:
        age = "older" if entry.version < document.version else "newer"
        return f"is {age} in the index (version {entry.version}) than on record (version {document.version})"
    if entry.state != document.state:
        return f"is {entry.state} in the index and {document.state} on record"
    return None if entry.digest == document.digest else "has another content in the index than on record"


def _key(one: Document | Entry) -> Key:
    return one.scope, one.id
