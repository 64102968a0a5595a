"""What is written to OpenSearch, in bulk, and what became of each document; pure."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from memory.vectors.answer import clean
from memory.vectors.embedder import Vectors
from memory.vectors.index import Document
from memory.vectors.opensearch_mapping import StoredGeneration, document_id
from memory.vectors.opensearch_queries import microseconds, packed
from memory.vectors.tokens import terms
from poimen.contracts.problems import safe_name

BULK_BYTES: Final = 2_000_000
_SOON: Final = frozenset({429, 500, 502, 503, 504})
_CONFLICT: Final = 409
_GONE: Final = 404
_BAD: Final = 400
# Of a bad request these are the index's fault, and not the document's.
_OF_THE_INDEX: Final = frozenset({"index_closed_exception", "strict_dynamic_mapping_exception"})

Fate = Literal["stored", "older", "again", "gone", "blocked", "failed"]


@dataclass(frozen=True, slots=True)
class Write:
    """A document that is to be written to one generation; `source` is a line of JSON."""

    document: Document
    target: StoredGeneration
    source: str

    @property
    def lines(self) -> str:
        """The two lines of a bulk request."""
        action = {
            "_index": self.target.writes,
            "_id": document_id(self.document.scope, self.document.id),
            "version": self.document.version,
            "version_type": "external",
            "require_alias": True,
        }
        return f"{json.dumps({'index': action})}\n{self.source}\n"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a write, and the store's name for what is wrong with it."""

    fate: Fate
    because: str | None = None


def text_of(document: Document) -> str:
    """Give the text that is indexed; a tombstone has none."""
    return clean(document.text) if document.state == "active" else ""


def source_of(document: Document, text: str, vector: Vectors | None) -> str:
    """Give a document as a line of JSON."""
    words = terms(text)
    source: dict[str, Any] = {
        "scope": document.scope,
        "id": document.id,
        "kind": document.kind,
        "level": document.level,
        "state": document.state,
        "digest": document.digest,
        "length": words.total(),
    }
    if document.recorded_at is not None:
        source["recorded_at"] = microseconds(document.recorded_at)
    # The store takes no vector without a direction.
    if vector is not None and not (np.isfinite(norm := float(np.linalg.norm(vector))) and norm > 0):
        vector = None
    if vector is not None:
        source["v"] = [round(float(number), 7) for number in vector]
    if document.state == "active":
        source |= {"lex": " ".join(words.elements()), "packed": packed(document, words, vector)}
    return json.dumps(source)


def batches(writes: Iterable[Write]) -> Iterator[tuple[list[Write], str]]:
    """Cut writes into requests of some megabytes at most, each with its body."""
    batch: list[Write] = []
    lines: list[str] = []
    size = 0
    for write in writes:
        text = write.lines
        if batch and size + len(text) > BULK_BYTES:
            yield batch, "".join(lines)
            batch, lines, size = [], [], 0
        batch.append(write)
        lines.append(text)
        size += len(text)
    if batch:
        yield batch, "".join(lines)


def read_results(answer: Mapping[str, Any]) -> list[Result]:
    """Read what became of each write of a request, in order."""
    return [_result(item["index"]) for item in answer["items"]]


def too_large() -> Result:
    """Say of a write that it is too large for a request of its own."""
    return Result("failed", "request_too_large")


def read_versions(answer: Mapping[str, Any]) -> list[int]:
    """Read the versions that are there, 0 where there is none; journal positions begin at 1."""
    return [found["_version"] if found.get("found") else 0 for found in answer["docs"]]


def versions_body(documents: Sequence[Document], targets: Sequence[StoredGeneration]) -> dict[str, Any]:
    """Ask which versions are there, of each document in each generation."""
    return {
        "docs": [
            {"_index": target.index, "_id": document_id(document.scope, document.id), "stored_fields": "_none_"}
            for target in targets
            for document in documents
        ]
    }


def _result(item: Mapping[str, Any]) -> Result:
    status = item["status"]
    if status < 300:
        return Result("stored")
    because = safe_name(str(item["error"]["type"])) or f"HTTP {status}"
    if status == _CONFLICT:
        return Result("older")
    if status in _SOON:
        return Result("again", because)
    if status == _GONE:
        return Result("gone", because)
    blamed = status == _BAD and because not in _OF_THE_INDEX and not because.endswith("_block_exception")
    return Result("failed" if blamed else "blocked", because)
