"""Write documents to the index in Postgres: which of them are new, and all that follows from it in one transaction."""

import json
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from memory.aside import aside
from memory.errors import StoreUnavailable
from memory.postgres import Row, Transaction, load_queries
from memory.vectors.answer import clean
from memory.vectors.embedder import Vectors
from memory.vectors.index import Document
from memory.vectors.tokens import terms

SQL = load_queries(__package__, "pgvector.sql")
EXACT_DOCUMENTS: Final = 10_000
"""Active documents of a scope whose vectors are compared one by one; those that come later go into the graph."""

GRAPH_DIMENSIONS: Final = frozenset({256, 384, 512, 768, 1024, 1536, 2048, 3072})

LONGEST_BESIDE: Final = 1024
"""The largest dimension whose vectors fit an entry of an index."""

BLOCK: Final = 256
"""Documents, by number, whose entries for a term are one row of the postings."""

_POSTING: Final = struct.Struct(">IHH")
_LARGEST: Final = 2**16 - 1

Reached = Literal["scan", "long", "graph"]
Place = tuple[int, str]
"""A corpus and an id in it."""


@dataclass(frozen=True, slots=True)
class Space:
    """What makes the vectors: the embedder's name and dimension, "" and 0 without one."""

    embedder: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A document with its text cut into terms."""

    document: Document
    text: str
    words: Counter[str]

    @property
    def length(self) -> int:
        return self.words.total()

    @property
    def active(self) -> bool:
        return self.document.state == "active"


@dataclass(frozen=True, slots=True)
class _Change:
    corpus: int
    number: int
    entry: Entry
    former: Row | None
    reached: Reached


@dataclass(slots=True)
class Changes:
    """What a batch changes: documents to write, those whose version moves alone, and what the corpora then are."""

    corpora: Sequence[Row]
    changed: list[_Change] = field(default_factory=list)
    moved: list[tuple[int, Document]] = field(default_factory=list)
    issued: dict[int, int] = field(default_factory=dict)

    @property
    def littered(self) -> bool:
        """Whether something of a dropped generation is still there."""
        return any(row["littered"] for row in self.corpora)

    @property
    def stored(self) -> set[tuple[str, str]]:
        """The scopes and ids of documents that are written to at least one generation."""
        documents = [*(one.entry.document for one in self.changed), *(document for _, document in self.moved)]
        return {(document.scope, document.id) for document in documents}

    def without_vector(self, vectors: Mapping[str, str]) -> list[str]:
        """Give the texts that must be embedded before this can be written."""
        return list(
            {one.entry.text: None for one in self.changed if one.entry.active and one.entry.text not in vectors}
        )


async def entries_of(documents: Sequence[Document]) -> list[Entry]:
    """Cut documents into terms; a tombstone has none. Of several versions of one document the newest is left."""
    newest: dict[tuple[str, str], Document] = {}
    for document in documents:
        known = newest.get((document.scope, document.id))
        if known is None or known.version < document.version:
            newest[document.scope, document.id] = document
    characters = sum(len(document.text) for document in newest.values())
    return await aside(characters, lambda: [_entry(document) for document in newest.values()])


def _entry(document: Document) -> Entry:
    text = clean(document.text) if document.state == "active" else ""
    return Entry(document, text, terms(text))


async def changes(tx: Transaction, entries: Sequence[Entry], space: Space) -> Changes:
    """Find out what the documents change, and lock it until the end of the transaction.

    Raises StoreUnavailable when no generation that takes writes is of this space.
    """
    scopes = sorted({entry.document.scope for entry in entries})
    tx.defer(SQL["hold_generations"])
    tx.defer(SQL["add_corpora"], scopes=scopes, embedder=space.embedder, dimension=space.dimension)
    corpora = await tx.rows(SQL["lock_corpora"], scopes=scopes, embedder=space.embedder, dimension=space.dimension)
    if not corpora:
        if not await tx.rows(SQL["hold_generations"]):
            raise StoreUnavailable("The tenant has no index yet, or it is gone; it is made of what is on record.")
        made = space.embedder or "no embedder"
        raise StoreUnavailable(f"The index has vectors of another embedder than {made}; run poimen rebuild --index.")
    by_scope: dict[str, list[Entry]] = {}
    for entry in entries:
        by_scope.setdefault(entry.document.scope, []).append(entry)
    places = [(row["corpus"], entry.document.id) for row in corpora for entry in by_scope[row["scope"]]]
    known = await tx.rows(SQL["known_documents"], **_places(places))
    there = {(row["corpus"], row["id"]): row for row in known}
    found = Changes(corpora)
    for row in corpora:
        _compare(found, row, by_scope[row["scope"]], there, space)
    return found


def _compare(found: Changes, corpus: Row, entries: Sequence[Entry], there: Mapping[Place, Row], space: Space) -> None:
    issued = corpus["issued"]
    graph = corpus["documents"] >= EXACT_DOCUMENTS and space.dimension in GRAPH_DIMENSIONS
    reached: Reached = "graph" if graph else one_by_one(space.dimension)
    for entry in entries:
        document = entry.document
        former = there.get((corpus["corpus"], document.id))
        if former is not None and former["version"] >= document.version:
            continue
        if former is not None and former["digest"].hex() == document.digest:
            found.moved.append((corpus["corpus"], document))
            continue
        issued += former is None
        number = issued if former is None else former["document"]
        found.changed.append(_Change(corpus["corpus"], number, entry, former, reached))
    found.issued[corpus["corpus"]] = issued


def one_by_one(dimension: int) -> Literal["scan", "long"]:
    """Say how vectors of a dimension are reached without a graph."""
    return "scan" if dimension <= LONGEST_BESIDE else "long"


async def write(tx: Transaction, found: Changes, vectors: Mapping[str, str]) -> None:
    """Write what was found to have changed; `vectors` are those of the texts, by text, as pgvector reads them."""
    if found.moved:
        moved = _places([(corpus, document.id) for corpus, document in found.moved])
        tx.defer(SQL["move_versions"], **moved, versions=[document.version for _, document in found.moved])
    if not found.changed:
        return
    replaced = [one for one in found.changed if one.former is not None]
    if replaced:
        places = _places([(one.corpus, one.entry.document.id) for one in replaced])
        tx.defer(SQL["drop_lone_postings"], **places)
        tx.defer(SQL["drop_postings"], **places)
        tx.defer(SQL["drop_vectors"], **_numbers(replaced))
    characters = sum(len(one.entry.text) for one in found.changed)
    words = await aside(characters, _words, found.changed)
    tx.defer(SQL["put_documents"], **_documents(found.changed), words=words)
    tx.defer(SQL["put_postings"], **await aside(characters, _postings, found.changed))
    meant = [one for one in found.changed if one.entry.active and one.entry.text in vectors]
    if meant:
        reached = [one.reached for one in meant]
        embeddings = [vectors[one.entry.text] for one in meant]
        tx.defer(SQL["put_vectors"], **_numbers(meant), reached=reached, embeddings=embeddings)
    _count(tx, found)


def _words(changed: Sequence[_Change]) -> str:
    return json.dumps([one.entry.words for one in changed])


def _documents(changed: Sequence[_Change]) -> dict[str, Any]:
    documents = [one.entry.document for one in changed]
    return {
        **_numbers(changed),
        "ids": [document.id for document in documents],
        "kinds": [document.kind for document in documents],
        "levels": [document.level for document in documents],
        "states": [document.state for document in documents],
        "recorded_at": [document.recorded_at for document in documents],
        "lengths": [one.entry.length for one in changed],
        "versions": [document.version for document in documents],
        "digests": [document.digest for document in documents],
    }


def _postings(changed: Sequence[_Change]) -> dict[str, str]:
    """Give the columns of new postings as arrays are written: the driver would write long lists on the event loop."""
    postings: dict[tuple[int, str, int], list[bytes]] = {}
    for one in changed:
        block, length = one.number // BLOCK, min(one.entry.length, _LARGEST)
        for term, frequency in one.entry.words.items():
            entry = _POSTING.pack(one.number, min(frequency, _LARGEST), length)
            postings.setdefault((one.corpus, term, block), []).append(entry)
    # In one order, so that who waits for whom is never a circle.
    keys = sorted(postings)
    return {
        "corpora": _array(str(corpus) for corpus, _, _ in keys),
        "terms": _array(map(_quoted, (term for _, term, _ in keys))),
        "blocks": _array(str(block) for _, _, block in keys),
        "entries": _array(b"".join(postings[key]).hex() for key in keys),
    }


def _array(elements: Iterable[str]) -> str:
    return f"{{{','.join(elements)}}}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _count(tx: Transaction, found: Changes) -> None:
    added, lengths, graphed = Counter[int](), Counter[int](), set[int]()
    for one in found.changed:
        former = one.former if one.former is not None and one.former["state"] == "active" else None
        added[one.corpus] += one.entry.active - (former is not None)
        lengths[one.corpus] += one.entry.length - (former["length"] if former is not None else 0)
        if one.reached == "graph":
            graphed.add(one.corpus)
    corpora = sorted({one.corpus for one in found.changed})
    tx.defer(
        SQL["count_corpora"],
        corpora=corpora,
        added=[added[corpus] for corpus in corpora],
        lengths=[lengths[corpus] for corpus in corpora],
        issued=[found.issued[corpus] for corpus in corpora],
        graphed=[corpus in graphed for corpus in corpora],
    )


def vector_text(vector: Vectors) -> str:
    """Give a vector as pgvector reads it: of length 1, and no number too small for two bytes."""
    values = np.asarray(vector, np.float64)
    length = float(np.linalg.norm(values))
    return json.dumps((values / length if length > 0 else values).astype(np.float16).astype(float).tolist())


def _places(places: Sequence[Place]) -> dict[str, Any]:
    return {"corpora": [corpus for corpus, _ in places], "ids": [item for _, item in places]}


def _numbers(changed: Sequence[_Change]) -> dict[str, Any]:
    return {"corpora": [one.corpus for one in changed], "documents": [one.number for one in changed]}
