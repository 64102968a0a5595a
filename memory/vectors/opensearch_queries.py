"""What OpenSearch is asked, and how its answers are read; pure.

A search asks twice. First it counts the searched scopes, since the store's own statistics are of everything that is in
the index. Then it asks for the best by words, weighed by those counts, and for the nearest, both at once.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import log, log2
from typing import Any, Final

import numpy as np

from memory.vectors.answer import Asked
from memory.vectors.embedder import Vectors
from memory.vectors.index import Document, Entry, Query
from memory.vectors.opensearch_mapping import LENGTH_STEPS, LENGTHS, MOST_RARITY, RARITY_STEPS
from memory.vectors.ranking import Candidate, Statistics
from poimen.contracts.definition import LIBRARY

CANDIDATES: Final = 50
"""Documents that words, and as many that vectors bring up to be ranked."""

GRAPH_VISITS: Final = 200
"""Neighbours that a search of the graph keeps an eye on; more find more, and take longer."""

_PACKED: Final[Mapping[str, Any]] = {"stored_fields": "_none_", "docvalue_fields": ["packed"]}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(instant: datetime) -> int:
    """Give an instant as microseconds since the epoch."""
    since = instant - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def statistics_body(query: Query, terms: Sequence[str]) -> dict[str, Any]:
    """Ask how many documents the scopes have, how long they are, and how many have each term."""
    having = {"filters": {"filters": {str(at): _has(term) for at, term in enumerate(terms)}}}
    return {
        "size": 0,
        "track_total_hits": True,
        "query": {"bool": {"filter": [_in_scopes(query), {"term": {"state": "active"}}]}},
        "aggs": {"length": {"sum": {"field": "length"}}, **({"having": having} if terms else {})},
    }


def read_statistics(answer: Mapping[str, Any], terms: Sequence[str]) -> Statistics:
    """Read the counts of the searched scopes."""
    documents = answer["hits"]["total"]["value"]
    buckets = answer["aggregations"]["having"]["buckets"] if terms else {}
    containing = {term: buckets[str(at)]["doc_count"] for at, term in enumerate(terms)}
    length = answer["aggregations"]["length"]["value"]
    return Statistics(documents, max(length / max(documents, 1), 1.0), containing)


def candidate_bodies(asked: Asked, statistics: Statistics) -> list[dict[str, Any]]:
    """Ask for the best by words and for the nearest, whichever there can be."""
    terms = _telling_terms(asked, statistics)
    bodies = [_words_body(asked.query, terms, statistics)] if terms else []
    if asked.vector is not None:
        bodies.append(_nearest_body(asked.query, asked.vector))
    return bodies


def _nearest_body(query: Query, vector: Vectors) -> dict[str, Any]:
    """Ask for the nearest; of few documents the store compares every one."""
    neighbours = {
        "vector": [round(float(number), 7) for number in vector],
        "k": CANDIDATES,
        "filter": {"bool": {"filter": [_in_scopes(query), *_filters(query)]}},
        "method_parameters": {"ef_search": GRAPH_VISITS},
    }
    return {"size": CANDIDATES, "track_total_hits": False, **_PACKED, "query": {"knn": {"v": neighbours}}}


def _telling_terms(asked: Asked, statistics: Statistics) -> list[str]:
    most = asked.most_documents(statistics.documents)
    return [term for term in asked.terms if 0 < statistics.containing.get(term, 0) <= most]


def _words_body(query: Query, terms: Sequence[str], statistics: Statistics) -> dict[str, Any]:
    """Ask for the best by some terms."""
    should = [{"term": {"lex": {"value": term, "boost": _boost(term, statistics)}}} for term in terms]
    allowed = [_in_scopes(query), *_filters(query)]
    return {
        "size": CANDIDATES,
        "track_total_hits": False,
        **_PACKED,
        "query": {"bool": {"filter": allowed, "should": should, "minimum_should_match": 1}},
        # Of equals the first by id, and not the one that was written first.
        "sort": [{"_score": "desc"}, {"id": "asc"}],
    }


def read_candidates(answers: Sequence[Mapping[str, Any]], wanted: Sequence[str]) -> list[Candidate]:
    """Read the union of what words and what vectors brought up, each document once."""
    hits = (hit for answer in answers for hit in answer["hits"]["hits"])
    heads = [_head(text) for text in dict.fromkeys(hit["fields"]["packed"][0] for hit in hits)]
    # A change that was made visible between the two gives a document twice, once as it was.
    return _candidates(list({(head[0], head[1]): head for head in reversed(heads)}.values()), wanted)


def lines(bodies: Sequence[Mapping[str, Any]]) -> str:
    """Put several searches of one index into the lines of one request."""
    return "".join(f"{{}}\n{json.dumps(body)}\n" for body in bodies)


def entries_body(after: tuple[str, str] | None, limit: int) -> dict[str, Any]:
    """Ask for documents in order of (scope, id)."""
    body: dict[str, Any] = {
        "size": limit,
        "version": True,
        "track_total_hits": False,
        "docvalue_fields": ["state", "digest"],
        "sort": [{"scope": "asc"}, {"id": "asc"}],
    }
    return body if after is None else {**body, "search_after": list(after)}


def read_entries(answer: Mapping[str, Any]) -> list[Entry]:
    """Read a page of documents."""
    entries = []
    for hit in answer["hits"]["hits"]:
        scope, item = hit["sort"]
        entries.append(Entry(scope, item, hit["_version"], hit["fields"]["state"][0], hit["fields"]["digest"][0]))
    return entries


def packed(document: Document, words: Mapping[str, int], vector: Vectors | None) -> str:
    """Give what a document is ranked by, in base64: its place, its terms with their counts, its vector.

    The vector is in half floats, little-endian. Cosines are computed of it; the graph only says who is near.
    """
    # Neither an identifier nor a term has a NUL.
    head = (document.scope, document.id, str(sum(words.values())), " ".join(words), " ".join(map(str, words.values())))
    halves = b"" if vector is None else vector.astype("<f2").tobytes()
    return base64.b64encode("\0".join(head).encode() + b"\0" + halves).decode()


def _boost(term: str, statistics: Statistics) -> int:
    rarity = min(max(round(_rarity(term, statistics) * RARITY_STEPS), 1), MOST_RARITY)
    length = min(round(log2(statistics.mean_length) * LENGTH_STEPS), LENGTHS - 1)
    return rarity * LENGTHS + length


def _rarity(term: str, statistics: Statistics) -> float:
    containing = statistics.containing[term]
    return log(1 + (max(statistics.documents - containing, 0) + 0.5) / (containing + 0.5))


def _head(text: str) -> list[bytes]:
    """Take what a document is ranked by apart: scope, id, length, terms, counts, vector."""
    # The store answers in the alphabet of URLs, unpadded.
    return binascii.a2b_base64(text.replace("-", "+").replace("_", "/") + "==").split(b"\0", 5)


def _candidates(heads: Sequence[Sequence[bytes]], wanted: Sequence[str]) -> list[Candidate]:
    following = iter(_vectors([head[5] for head in heads if head[5]]))
    keys = {term.encode(): term for term in wanted}
    found = []
    for _, item, length, terms, counts, halves in heads:
        words = dict(zip(terms.split(b" "), counts.split(b" "), strict=True))
        frequencies = {keys[key]: int(words[key]) for key in keys.keys() & words.keys()}
        found.append(Candidate(item.decode(), frequencies, int(length), next(following) if halves else None))
    return found


def _vectors(halves: Sequence[bytes]) -> Vectors:
    """Give the vectors, all in one step."""
    return np.frombuffer(b"".join(halves), "<f2").astype(np.float32).reshape(max(len(halves), 1), -1)


def _in_scopes(query: Query) -> dict[str, Any]:
    # A tombstone needs no filter here: it has neither words nor a vector.
    return {"terms": {"scope": sorted({query.scope, LIBRARY})}}


def _filters(query: Query) -> list[dict[str, Any]]:
    filters: list[dict[str, Any]] = []
    if query.kinds:
        filters.append({"terms": {"kind": list(query.kinds)}})
    if query.levels:
        filters.append({"terms": {"level": list(query.levels)}})
    if query.not_before is not None:
        filters.append({"range": {"recorded_at": {"gte": microseconds(query.not_before)}}})
    return filters


def _has(term: str) -> dict[str, Any]:
    return {"term": {"lex": term}}
