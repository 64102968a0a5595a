"""Search the index in Postgres: the candidates that words and vectors bring up, with all that their ranking reads.

The postings are scored here and not in SQL, where a row for each term of each document costs more than all the rest.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import numpy as np
from numpy.typing import NDArray

from memory.errors import SchemaDiffers
from memory.postgres.transaction import Row, Statement, Transaction, statement
from memory.vectors.answer import Asked
from memory.vectors.index import Query
from memory.vectors.pgvector_put import SQL, Space, one_by_one, vector_text
from memory.vectors.ranking import LENGTH_SHARE, SATURATION, Candidate, Statistics
from poimen.contracts.definition import LIBRARY

CANDIDATES: Final = 50
"""Documents that words, and as many that vectors bring up to be ranked."""

COMPARED_DOCUMENTS: Final = 50_000
"""Of so many all vectors are compared: a graph is every tenant's, and others may be all that it leads to."""

_POSTING: Final = np.dtype([("document", ">u4"), ("frequency", ">u2"), ("length", ">u2")])

# The dimension and two unused bytes.
_VECTOR_HEADER: Final = 4

Numbers = NDArray[np.float64]
Slots = NDArray[np.int64]
Place = tuple[int, int]
"""A corpus, and the number of a document in it."""


@dataclass(frozen=True, slots=True)
class Corpora:
    """What is searched: the places of the scopes in the live generation, by number, with the last number issued."""

    issued: Mapping[int, int]
    documents: int
    mean_length: float
    graphed: bool
    space: Space

    @property
    def led(self) -> bool:
        """Say whether those in the graph are so many that it is followed."""
        return self.graphed and self.documents > COMPARED_DOCUMENTS


@dataclass(frozen=True, slots=True)
class _Matches:
    """Entries of the query's terms, flat: `slots` number the documents of all corpora through."""

    corpora: Corpora
    # Each with the number of documents that have it.
    terms: Mapping[str, int]
    slots: Slots
    term_of: Slots
    frequencies: Numbers
    lengths: Numbers

    def scores(self) -> Numbers:
        """Give BM25 by slot."""
        having = np.array(list(self.terms.values()), np.float64)
        rarity = np.log(1 + (np.maximum(self.corpora.documents - having, 0) + 0.5) / (having + 0.5))
        slack = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * self.lengths / self.corpora.mean_length)
        parts = rarity[self.term_of] * self.frequencies * (1 + SATURATION) / (self.frequencies + slack)
        total = np.bincount(self.slots, parts, minlength=sum(_sizes(self.corpora).values()))
        # Else the last bit would break ties.
        rounded: Numbers = np.round(total, 9)
        return rounded

    def of(self, places: Sequence[Place]) -> list[dict[str, int]]:
        """Give each document's frequencies."""
        found: list[dict[str, int]] = [{} for _ in places]
        at = np.full(sum(_sizes(self.corpora).values()), -1)
        first = _first_slots(self.corpora)
        at[[first[corpus] + document for corpus, document in places]] = np.arange(len(places))
        wanted, terms = at[self.slots], list(self.terms)
        kept = wanted >= 0
        entries = zip(wanted[kept].tolist(), self.term_of[kept].tolist(), self.frequencies[kept].tolist(), strict=True)
        for place, term, frequency in entries:
            found[place][terms[term]] = int(frequency)
        return found


async def searched(tx: Transaction, query: Query) -> Corpora | None:
    """Read what the query is over; None without a live generation."""
    planned, rows = await tx.gather(
        statement(SQL["plan_searches"]), statement(SQL["live_corpora"], scopes=sorted({query.scope, LIBRARY}))
    )
    if planned[0]["iterative_scan"] != "relaxed_order":
        raise SchemaDiffers("The database's pgvector does not follow its graph as asked; install 0.8 or newer.")
    if not rows:
        return None
    held = [row for row in rows if row["corpus"] is not None]
    documents = sum(row["documents"] for row in held)
    return Corpora(
        {row["corpus"]: row["issued"] for row in held},
        documents,
        max(sum(row["total_length"] for row in held) / max(documents, 1), 1.0),
        any(row["graphed"] for row in held),
        Space(rows[0]["embedder"], rows[0]["dimension"]),
    )


async def candidates(tx: Transaction, asked: Asked, corpora: Corpora) -> tuple[list[Candidate], Statistics]:
    """Give the union of the 50 best documents by words and the 50 nearest, and end the transaction."""
    postings, *near = await tx.gather(*_statements(asked, corpora))
    allowed = _mask(near.pop(0), corpora) if _filtered(asked.query) else None
    if asked.vector is not None and corpora.led and len(near[-1]) < CANDIDATES:
        # There may be more where the graph did not lead.
        near[-1:] = await tx.gather(statement(SQL["nearest"], **_meaning(asked, corpora), reached="graph"))
    containing: Counter[str] = Counter()
    for row in postings:
        containing[row["term"]] += int(row["documents"])
    common = sorted({row["term"] for row in postings if row["entries"] is None})
    matches = _matches([row for row in postings if row["entries"] is not None], corpora, containing)
    by_words = await _best(tx, matches, allowed)
    places = list(dict.fromkeys([*by_words, *((row["corpus"], row["document"]) for rows in near for row in rows)]))
    (rows,) = await tx.gather(
        statement(
            SQL["candidates"],
            **_places(places),
            terms=common,
            meant=asked.vector is not None,
            graphed=corpora.graphed,
            reached=one_by_one(corpora.space.dimension),
        ),
        last=True,
    )
    statistics = Statistics(corpora.documents, corpora.mean_length, containing)
    return _read(rows, matches), statistics


def _statements(asked: Asked, corpora: Corpora) -> list[Statement]:
    query = asked.query
    most = asked.most_documents(corpora.documents)
    statements = [statement(SQL["postings"], corpora=list(corpora.issued), terms=list(asked.terms), most=most)]
    if _filtered(query):
        statements.append(statement(SQL["allowed"], **_filters(query, corpora)))
    if asked.vector is None:
        return statements
    values = _meaning(asked, corpora)
    dimension = corpora.space.dimension
    statements.append(statement(SQL["nearest"], **values, reached=one_by_one(dimension)))
    if corpora.led:
        statements.append(statement(NEAREST_IN_GRAPH[dimension], **values))
    elif corpora.graphed:
        statements.append(statement(SQL["nearest"], **values, reached="graph"))
    return statements


def _filters(query: Query, corpora: Corpora) -> dict[str, Any]:
    return {
        "corpora": list(corpora.issued),
        "kinds": list(query.kinds),
        "levels": list(query.levels),
        "not_before": query.not_before,
    }


def _meaning(asked: Asked, corpora: Corpora) -> dict[str, Any]:
    assert asked.vector is not None
    return {
        **_filters(asked.query, corpora),
        "filtered": _filtered(asked.query),
        "candidates": CANDIDATES,
        "vector": vector_text(asked.vector),
    }


def _filtered(query: Query) -> bool:
    return bool(query.kinds or query.levels or query.not_before)


def _sizes(corpora: Corpora) -> dict[int, int]:
    return {corpus: last + 1 for corpus, last in corpora.issued.items()}


def _first_slots(corpora: Corpora) -> dict[int, int]:
    sizes = _sizes(corpora)
    ends = np.cumsum(list(sizes.values())).tolist()
    return {corpus: end - size for (corpus, size), end in zip(sizes.items(), ends, strict=True)}


def _matches(rows: Sequence[Row], corpora: Corpora, terms: Mapping[str, int]) -> _Matches:
    first = _first_slots(corpora)
    index = {term: at for at, term in enumerate(terms)}
    # In the order of terms, so that the same sum comes out for documents that have the same.
    ordered = sorted(rows, key=lambda row: row["term"])
    entries = np.frombuffer(b"".join(row["entries"] for row in ordered), _POSTING)
    counts = [len(row["entries"]) // _POSTING.itemsize for row in ordered]
    documents = entries["document"].astype(np.int64)
    term_of, starts, issued = (
        np.repeat(np.array(values, np.int64), counts)
        for values in (
            [index[row["term"]] for row in ordered],
            [first[row["corpus"]] for row in ordered],
            [corpora.issued[row["corpus"]] for row in ordered],
        )
    )
    frequencies, lengths = (entries[name].astype(np.float64) for name in ("frequency", "length"))
    kept = documents <= issued
    if kept.all():
        return _Matches(corpora, terms, documents + starts, term_of, frequencies, lengths)
    # A document that came since the corpora were read is left to the next search.
    slots = (documents + starts)[kept]
    return _Matches(corpora, terms, slots, term_of[kept], frequencies[kept], lengths[kept])


def _mask(rows: Sequence[Row], corpora: Corpora) -> NDArray[np.bool_]:
    allowed = np.zeros(sum(_sizes(corpora).values()), bool)
    first = _first_slots(corpora)
    for row in rows:
        numbers = np.frombuffer(row["documents"], ">i4").astype(np.int64)
        allowed[numbers[numbers <= corpora.issued[row["corpus"]]] + first[row["corpus"]]] = True
    return allowed


async def _best(tx: Transaction, matches: _Matches, allowed: NDArray[np.bool_] | None) -> list[Place]:
    scores = matches.scores()
    if allowed is not None:
        scores = np.where(allowed, scores, 0)
    found = np.flatnonzero(scores > 0)
    if len(found) <= CANDIDATES:
        return _placed(found, matches.corpora)
    last = np.partition(scores[found], -CANDIDATES)[-CANDIDATES]
    better, alike = found[scores[found] > last], found[scores[found] == last]
    left = CANDIDATES - len(better)
    if len(alike) > left:
        rows = await tx.rows(SQL["first_by_id"], **_places(_placed(alike, matches.corpora)), limit=left)
        return [*_placed(better, matches.corpora), *((row["corpus"], row["document"]) for row in rows)]
    return _placed(np.concatenate([better, alike]), matches.corpora)


def _placed(slots: Slots, corpora: Corpora) -> list[Place]:
    numbers, starts = list(corpora.issued), np.array(list(_first_slots(corpora).values()), np.int64)
    owner = np.searchsorted(starts, slots, side="right") - 1
    return [
        (numbers[at], document) for at, document in zip(owner.tolist(), (slots - starts[owner]).tolist(), strict=True)
    ]


def _places(places: Sequence[Place]) -> dict[str, Any]:
    return {"corpora": [corpus for corpus, _ in places], "documents": [document for _, document in places]}


def _read(rows: Sequence[Row], matches: _Matches) -> list[Candidate]:
    places = [(row["corpus"], row["document"]) for row in rows]
    # One that came since the corpora were read: its words are not known.
    old = [document <= matches.corpora.issued[corpus] for corpus, document in places]
    kept = [row for row, keep in zip(rows, old, strict=True) if keep]
    frequencies = matches.of([place for place, keep in zip(places, old, strict=True) if keep])
    return [
        Candidate(row["id"], (row["frequencies"] or {}) | words, row["length"], _vector(row["vector"]))
        for row, words in zip(kept, frequencies, strict=True)
    ]


def _vector(sent: bytes | None) -> NDArray[np.float32] | None:
    return None if sent is None else np.frombuffer(sent, ">f2", offset=_VECTOR_HEADER).astype(np.float32)


def _graphs() -> dict[int, LiteralString]:
    # A type's modifier cannot be a parameter, and an index is only used for an expression that is its own.
    spelled: dict[int, LiteralString] = {
        256: "256", 384: "384", 512: "512", 768: "768", 1024: "1024", 1536: "1536", 2048: "2048", 3072: "3072",
    }  # fmt: skip
    return {dimension: SQL["nearest_in_graph"].replace("384", text) for dimension, text in spelled.items()}


NEAREST_IN_GRAPH: Final = _graphs()
