"""Ask other memories the same questions over the same vectors: python -m benchmarks.peers SETS --vectors DIR --ours F

Runs in an environment of its own, with what it compares: chromadb, langgraph and mem0ai. DIR holds the vectors that
`poimen eval retrieval SETS --vectors DIR --json` kept, F is what that command printed. Prints each peer's figures, and
ours divided by them; for each measure the best peer counts. Nothing is reached over a network.
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

import numpy as np

from memory.vectors.evaluation.measures import DEPTH, Scores, at_share, mean, score
from memory.vectors.evaluation.question_sets import QuestionSet, read_sets

MEASURES = {"ndcg@10": "ndcg", "recall@5": "recall_5", "recall@10": "recall_10", "mrr@10": "mrr"}
Look = Callable[[str], list[float]]


class Peer(Protocol):
    """A memory with one place for each group of items."""

    def add(self, items: Mapping[str, str]) -> None:
        """Store items, by id."""

    def search(self, text: str, limit: int) -> list[str]:
        """Give the ids of the best, best first."""


class Chroma:
    """chromadb in this process."""

    def __init__(self, look: Look, place: str) -> None:
        import chromadb  # noqa: PLC0415  because each peer's packages may be missing

        self._look = look
        client = chromadb.EphemeralClient(chromadb.Settings(anonymized_telemetry=False))
        self._collection = client.create_collection(place, metadata={"hnsw:space": "cosine"}, embedding_function=None)

    def add(self, items: Mapping[str, str]) -> None:
        texts = list(items.values())
        self._collection.add(ids=list(items), documents=texts, embeddings=[self._look(text) for text in texts])

    def search(self, text: str, limit: int) -> list[str]:
        found: list[list[str]] = self._collection.query(query_embeddings=[self._look(text)], n_results=limit)["ids"]
        return found[0]


class LangGraph:
    """LangGraph's store in this process."""

    def __init__(self, look: Look, place: str) -> None:
        from langgraph.store.memory import InMemoryStore  # noqa: PLC0415  because each peer's packages may be missing

        def embed(texts: Sequence[str]) -> list[list[float]]:
            return [look(text) for text in texts]

        self._place = (place,)
        self._store = InMemoryStore(index={"dims": len(look("")), "embed": embed, "fields": ["text"]})

    def add(self, items: Mapping[str, str]) -> None:
        for item, text in items.items():
            self._store.put(self._place, item, {"text": text})

    def search(self, text: str, limit: int) -> list[str]:
        return [found.key for found in self._store.search(self._place, query=text, limit=limit)]


class Mem0:
    """mem0 with its default store in this process, without its model: texts are kept as they are."""

    def __init__(self, look: Look, place: str) -> None:
        os.environ |= {"MEM0_TELEMETRY": "False", "OPENAI_API_KEY": "none"}  # noqa: TID251  because its settings are there
        folder = tempfile.mkdtemp()
        os.environ["MEM0_DIR"] = folder  # noqa: TID251  because its settings are there
        from mem0 import Memory  # noqa: PLC0415  because it reads the environment when it is imported

        self._place = place
        store = {"collection_name": "peer", "path": f"{folder}/store", "embedding_model_dims": len(look(""))}
        given = {"provider": "qdrant", "config": store}
        self._memory = Memory.from_config({"vector_store": given, "history_db_path": f"{folder}/history.db"})
        self._looking = self._memory.embedding_model = _Looking(look)

    def add(self, items: Mapping[str, str]) -> None:
        for item, text in items.items():
            self._memory.add(text, user_id=self._place, metadata={"item": item}, infer=False)

    def search(self, text: str, limit: int) -> list[str]:
        self._looking.whole[text.strip()] = text
        found = self._memory.search(text, filters={"user_id": self._place}, top_k=limit, threshold=0.0)
        return [one["metadata"]["item"] for one in found["results"]]


class _Looking:
    """What mem0 takes for its embedding model; it trims what is asked, and the vector is the whole text's."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self.config = None
        self.whole: dict[str, str] = {}

    def embed(self, text: str, _action: str | None = None, **_: Any) -> list[float]:
        return self._look(self.whole.get(text, text))

    def embed_batch(self, texts: Sequence[str], _action: str | None = None, **_: Any) -> list[list[float]]:
        return [self.embed(text) for text in texts]


PEERS: dict[str, Callable[[Look, str], Peer]] = {"chromadb": Chroma, "langgraph": LangGraph, "mem0": Mem0}


def kept(folder: Path) -> Look:
    """Give what looks a text's vector up among those that were kept."""
    (file,) = folder.glob("vectors-*.npz")
    with np.load(file, allow_pickle=False) as stored:
        vectors = dict(zip(stored["keys"].tolist(), stored["vectors"].tolist(), strict=True))
    some = next(iter(vectors.values()))

    def look(text: str) -> list[float]:
        # Peers ask for the dimension with a text of their own.
        vector = vectors.get(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
        if vector is None and text:
            raise KeyError("A text has no kept vector; run poimen eval retrieval on the same sets first.")
        return vector or some

    return look


def measure(peer: Callable[[Look, str], Peer], look: Look, questions: QuestionSet) -> dict[str, float]:
    """Ask one peer all questions of a set."""
    scores, searches, added, adding = list[Scores](), list[float](), 0, 0.0
    for number, group in enumerate(questions.groups):
        store = peer(look, f"{questions.name[:40]}-{number}")
        began = time.perf_counter()
        store.add(group.items)
        adding += time.perf_counter() - began
        added += len(group.items)
        for question in group.questions:
            began = time.perf_counter()
            found = store.search(question.text, DEPTH + (question.own is not None))
            searches.append(time.perf_counter() - began)
            scores.append(score([item for item in found if item != question.own], question.relevant))
    means = mean(scores)
    figures = {name: round(getattr(means, field), 4) for name, field in MEASURES.items()}
    return figures | {
        "search_ms_p50": round(1_000 * at_share(searches, 0.5), 2),
        "search_ms_p95": round(1_000 * at_share(searches, 0.95), 2),
        "adds_per_second": round(added / adding, 1),
    }


def compare(ours: Mapping[str, Any], peers: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, Any]:
    """Divide our figures by the best peer's: of each set, and of the mean over sets of each peer."""
    sets = list(next(iter(peers.values())))
    ratios = {}
    for one in sets:
        best = {name: max(peer[one][name] for peer in peers.values()) for name in MEASURES}
        ratios[one] = {name: round(ours[one][name] / best[name], 4) for name in MEASURES}
    our_mean = {name: fmean(ours[one][name] for one in sets) for name in MEASURES}
    best_mean = {name: max(fmean(peer[one][name] for one in sets) for peer in peers.values()) for name in MEASURES}
    return ratios | {"mean": {name: round(our_mean[name] / best_mean[name], 4) for name in MEASURES}}


def main() -> int:
    """Measure the peers that are asked for, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path, help="a set, or a folder of sets")
    parser.add_argument("--vectors", type=Path, required=True, help="where poimen eval kept the vectors")
    parser.add_argument("--ours", type=Path, required=True, help="what poimen eval retrieval --json printed")
    parser.add_argument("--peers", nargs="+", choices=sorted(PEERS), default=sorted(PEERS))
    asked = parser.parse_args()
    ours = json.loads(asked.ours.read_text())["sets"]
    look = kept(asked.vectors)
    measured: dict[str, dict[str, dict[str, float]]] = {}
    for name in asked.peers:
        measured[name] = {}
        for questions in read_sets(asked.sets):
            if questions.name in ours:
                measured[name][questions.name] = measure(PEERS[name], look, questions)
                print(name, questions.name, measured[name][questions.name], file=sys.stderr, flush=True)
    print(json.dumps({"peers": measured, "ours_to_best_peer": compare(ours, measured)}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
