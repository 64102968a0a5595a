"""How knowledge lies in OpenSearch: an index for each generation of a tenant, and what its documents hold.

A tenant's live generation has the tenant's alias. An index is never copied from another: it is made of the journal.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from memory.vectors.index import Generation
from memory.vectors.ranking import LENGTH_SHARE, SATURATION

PREFIX: Final = "poimen-"
TEMPLATE: Final = "poimen"
_WRITES: Final = "-writes"

# Two numbers travel in the boost of a term, a float of 24 exact bits: 14 of its rarity, 10 of the mean length.
RARITY_STEPS: Final = 1024
MOST_RARITY: Final = 2**14 - 1
LENGTH_STEPS: Final = 64
LENGTHS: Final = 2**10

_SIMILARITY: Final = f"""
long packed = (long) query.boost;
double rarity = (packed / {LENGTHS}L) / {RARITY_STEPS}.0;
double mean = Math.pow(2.0, (packed % {LENGTHS}L) / {LENGTH_STEPS}.0);
double slack = {SATURATION} * ({1 - LENGTH_SHARE} + {LENGTH_SHARE} * doc.length / mean);
return rarity * doc.freq * {1 + SATURATION} / (doc.freq + slack);
"""

TEMPLATE_BODY: Final[Mapping[str, Any]] = {
    "index_patterns": [f"{PREFIX}*"],
    "priority": 500,
    "version": 1,
    "template": {
        "settings": {
            "index": {
                "knn": True,
                # Neighbours and counts are found by shard; a search over several would rank each apart.
                "number_of_shards": 1,
                # Named, because an index without it stops refreshing when nobody searches for a while.
                "refresh_interval": "1s",
                "similarity": {"scope": {"type": "scripted", "script": {"source": _SIMILARITY}}},
            }
        },
        "mappings": {
            "dynamic": "strict",
            # What a search needs of a document is in one field, which is read many times faster than a source.
            "_source": {"enabled": False},
            "properties": {
                "scope": {"type": "keyword"},
                "id": {"type": "keyword"},
                "kind": {"type": "keyword"},
                "level": {"type": "keyword"},
                "state": {"type": "keyword"},
                # Microseconds since the epoch: a date would keep milliseconds.
                "recorded_at": {"type": "long"},
                "digest": {"type": "keyword", "index": False},
                "length": {"type": "integer", "index": False},
                # Our own terms, cut already, with how often each occurs.
                "lex": {"type": "text", "analyzer": "whitespace", "index_options": "freqs", "similarity": "scope"},
                # What a document is ranked by; see `packed`.
                "packed": {"type": "binary", "doc_values": True},
            },
        },
    },
}


@dataclass(frozen=True, slots=True)
class StoredGeneration:
    """A generation and the index that holds it."""

    index: str
    generation: Generation

    @property
    def writes(self) -> str:
        """The alias that documents are written by: a write to one that is gone must not make an index of the name."""
        return self.index + _WRITES

    @property
    def takes_writes(self) -> bool:
        return self.generation.state != "kept"


def alias_of(tenant: str) -> str:
    """Give the alias of a tenant's live index; a tenant's name may hold what an index's may not."""
    return PREFIX + hashlib.sha256(tenant.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def index_of(tenant: str, number: int) -> str:
    """Give the name of the index of a generation."""
    return f"{alias_of(tenant)}-{number}"


def document_id(scope: str, item: str) -> str:
    """Give the id of a document in its index; the store allows 512 bytes."""
    return hashlib.sha256(f"{scope}\0{item}".encode("utf-8", "surrogatepass")).hexdigest()[:40]


def index_body(tenant: str, generation: Generation, *, replicas: int) -> dict[str, Any]:
    """Give the body of a request that makes the index of a generation, which takes writes and is not searched yet."""
    mappings: dict[str, Any] = {
        "_meta": {
            "tenant": tenant,
            "number": generation.number,
            "embedder": generation.embedder,
            "dimension": generation.dimension,
        }
    }
    if generation.dimension:
        mappings["properties"] = {
            "v": {
                "type": "knn_vector",
                "dimension": generation.dimension,
                "space_type": "cosinesimil",
                # Named, because the default engine is a native library, which a server may lack.
                "method": {"name": "hnsw", "engine": "lucene", "parameters": {"m": 16, "ef_construction": 128}},
            }
        }
    return {
        "settings": {"index": {"number_of_replicas": replicas}},
        "mappings": mappings,
        "aliases": {index_of(tenant, generation.number) + _WRITES: {}},
    }


def read_generations(answer: Mapping[str, Any], tenant: str) -> tuple[StoredGeneration, ...]:
    """Read what the store says of a tenant's indices, newest first.

    Their aliases say how each is used: any of them may have been lost, and the rest must be seen as they are.
    """
    stored = []
    for index, held in answer.items():
        meta = held.get("mappings", {}).get("_meta", {})
        if meta.get("tenant") == tenant:
            aliases = held.get("aliases", {})
            state: Literal["building", "live", "kept"] = "kept"
            if alias_of(tenant) in aliases:
                state = "live"
            elif index + _WRITES in aliases:
                state = "building"
            made = Generation(meta["number"], state, meta["embedder"], meta["dimension"])
            stored.append(StoredGeneration(index, made))
    return tuple(sorted(stored, key=lambda one: -one.generation.number))
