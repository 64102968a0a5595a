"""What OpenSearch is asked, and how its answers are read; pure.

A search asks twice. First it counts the searched scopes, since the store's own statistics are of everything that is in
the index. Then it asks for the best by words, weighed by those counts, and for the nearest.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import log, log2
from typing import Any, Final

import numpy as np

from memory.vectors.answer import Asked
from memory.vectors.embedder import Vectors
from memory.vectors.index import Entry, Query
from memory.vectors.opensearch_mapping import HALF, LENGTH_STEPS, RARITY_STEPS
from memory.vectors.ranking import LENGTH_SHARE, SATURATION, Candidate, Statistics
from poimen.contracts.definition import LIBRARY

CANDIDATES: Final = 50
"""Documents that words, and as many that vectors bring up to be ranked."""

EXACT_DOCUMENTS: Final = 2_000
"""Documents of the searched scopes whose vectors are compared one by one; of more the graph says who is near."""

GRAPH_VISITS: Final = 200
"""Neighbours that a search of the graph keeps an eye on; more find more, and take longer."""

LARGE_SCOPE_DOCUMENTS: Final = 10_000
COMMON_SHARE: Final = 0.1
# The store knows a document's length to an eighth, and a term's rarity to 1/256: some more, so that none is missed.
_BY_WORDS: Final = CANDIDATES * 3 // 2
_MADE_OF: Final = ("length", "words", "exact")
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
        "query": {"bool": {"filter": _in_scopes(query)}},
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
    bodies = []
    terms = telling_terms(asked, statistics)
    if terms:
        bodies.append(_words_body(asked.query, terms, statistics))
    if asked.vector is not None:
        bodies.append(_nearest_body(asked.query, asked.vector, statistics))
    return bodies


def telling_terms(asked: Asked, statistics: Statistics) -> list[str]:
    """Give the terms to look for: where meaning helps out, those that a tenth of a large scope has tell too little."""
    held = [term for term in asked.terms if statistics.containing.get(term, 0)]
    if statistics.documents <= LARGE_SCOPE_DOCUMENTS or asked.vector is None:
        return held
    return [term for term in held if statistics.containing[term] <= statistics.documents * COMMON_SHARE]


def read_candidates(answers: Sequence[Mapping[str, Any]], asked: Asked, statistics: Statistics) -> list[Candidate]:
    """Read the union of what both searches brought up."""
    wanted = frozenset(asked.terms)
    found: dict[str, Candidate] = {}
    if telling_terms(asked, statistics):
        worded = {hit["_id"]: _candidate(hit["fields"], wanted) for hit in answers[0]["hits"]["hits"]}
        rarity = {term: _rarity(term, statistics) for term in telling_terms(asked, statistics)}
        in_order = sorted(worded, key=lambda key: (-_by_words(worded[key], rarity, statistics), worded[key].id))
        found = {key: worded[key] for key in in_order[:CANDIDATES]}
    if asked.vector is not None:
        for hit in answers[-1]["hits"]["hits"]:
            if hit["_id"] not in found:
                found[hit["_id"]] = _candidate(hit["fields"], wanted)
    return list(found.values())


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


def packed_vector(vector: Vectors) -> str:
    """Give a vector as it is kept for cosines: half floats, little-endian, base64."""
    return base64.b64encode(vector.astype("<f2").tobytes()).decode()


def _words_body(query: Query, terms: Sequence[str], statistics: Statistics) -> dict[str, Any]:
    should = [{"term": {"lex": {"value": term, "boost": _boost(term, statistics)}}} for term in terms]
    allowed = [*_in_scopes(query), *_filters(query)]
    return {
        "size": _BY_WORDS,
        "track_total_hits": False,
        "stored_fields": list(_MADE_OF),
        "docvalue_fields": ["id"],
        "query": {"bool": {"filter": allowed, "should": should, "minimum_should_match": 1}},
        # Of equals the first by id, and not the one that was written first.
        "sort": [{"_score": "desc"}, {"id": "asc"}],
    }


def _nearest_body(query: Query, vector: Vectors, statistics: Statistics) -> dict[str, Any]:
    allowed = [*_in_scopes(query), *_filters(query), {"exists": {"field": "v"}}]
    given = [round(float(number), 7) for number in vector]
    neighbours = {
        "vector": given,
        "k": CANDIDATES,
        "filter": {"bool": {"filter": allowed}},
        "method_parameters": {"ef_search": GRAPH_VISITS},
    }
    if statistics.documents <= EXACT_DOCUMENTS:
        # As many as there are: then no graph is followed.
        neighbours |= {"k": max(statistics.documents, CANDIDATES)}
        del neighbours["method_parameters"]
    return {
        "size": CANDIDATES,
        "track_total_hits": False,
        "stored_fields": list(_MADE_OF),
        "docvalue_fields": ["id"],
        "query": {"knn": {"v": neighbours}},
    }


def _boost(term: str, statistics: Statistics) -> int:
    rarity = min(max(round(_rarity(term, statistics) * RARITY_STEPS), 1), HALF - 1)
    length = min(round(log2(statistics.mean_length) * LENGTH_STEPS), HALF - 1)
    return rarity * HALF + length


def _rarity(term: str, statistics: Statistics) -> float:
    containing = statistics.containing[term]
    return log(1 + (max(statistics.documents - containing, 0) + 0.5) / (containing + 0.5))


def _by_words(candidate: Candidate, rarity: Mapping[str, float], statistics: Statistics) -> float:
    slack = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * candidate.length / statistics.mean_length)
    counts = ((rarity[term], count) for term, count in candidate.frequencies.items() if term in rarity)
    return sum(weight * count * (1 + SATURATION) / (count + slack) for weight, count in counts)


def _candidate(fields: Mapping[str, Any], wanted: frozenset[str]) -> Candidate:
    words = fields.get("words", [""])[0].split(" ")
    frequencies = {term: int(count) for term, count in zip(words[::2], words[1::2], strict=False) if term in wanted}
    packed = fields.get("exact")
    vector = np.frombuffer(base64.b64decode(packed[0]), "<f2").astype(np.float32) if packed else None
    return Candidate(fields["id"][0], frequencies, fields["length"][0], vector)


def _in_scopes(query: Query) -> list[dict[str, Any]]:
    return [{"terms": {"scope": sorted({query.scope, LIBRARY})}}, {"term": {"state": "active"}}]


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
