"""Measure how well a search finds the answers of known questions: on a server of its own, with the model in the worker.

python -m benchmarks.retrieval SETS [--store NAME] [--vectors DIR]. `poimen eval` does the same on a store that runs.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import structlog

from benchmarks.vector_costs import migrated_pool
from memory.settings import OpenSearchSettings
from memory.vectors.evaluation.kept_vectors import KeptVectors
from memory.vectors.evaluation.question_sets import read_sets
from memory.vectors.evaluation.retrieval import DEADLINE_SECONDS, Bench, mean_of, measure_set
from memory.vectors.index import VectorIndex
from memory.vectors.minilm import MiniLM
from memory.vectors.opensearch import OpenSearchIndex
from memory.vectors.pgvector import PgvectorIndex
from worker.stack.opensearch import OpenSearchPorts, opensearch_server
from worker.stack.opensearch_build import default_cache
from worker.stack.postgres import postgres_server
from worker.stack.state import choose_ports


async def measure(sets: Path, store: str, kept: Path | None = None) -> dict[str, Any]:
    """Measure every set of a folder on one store, and keep the vectors in a folder. Raises BadQuestions."""
    # The figures go to stdout.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    questions = read_sets(sets)
    vectors = KeptVectors(MiniLM(), kept)
    async with (_opensearch if store == "opensearch" else _pgvector)(vectors) as index:
        bench = Bench(index, vectors, f"bench-{uuid.uuid4().hex}")
        figures = {one.name: await measure_set(bench, one) for one in questions}
    vectors.save()
    return {"sets": figures, "mean": mean_of(figures)}


@contextlib.asynccontextmanager
async def _pgvector(vectors: KeptVectors) -> AsyncIterator[VectorIndex]:
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), choose_ports(["postgres"])["postgres"]
        server = postgres_server(folder / "server", port=port, log=folder / "log")
        async with server as postgres, migrated_pool(postgres) as pool:
            yield PgvectorIndex(pool, vectors)


@contextlib.asynccontextmanager
async def _opensearch(vectors: KeptVectors) -> AsyncIterator[VectorIndex]:
    with tempfile.TemporaryDirectory() as name:
        folder, ports = Path(name), OpenSearchPorts(*choose_ports(["http", "transport"]).values())
        node = opensearch_server(folder / "node", ports=ports, log=folder / "log", cache=default_cache())
        async with node as running:
            index = OpenSearchIndex(OpenSearchSettings(urls=(running.url,), request_seconds=DEADLINE_SECONDS), vectors)
            try:
                yield index
            finally:
                await index.close()


def main() -> int:
    """Read the command line and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path, help="a set, or a folder of sets")
    parser.add_argument("--store", choices=("pgvector", "opensearch"), default="pgvector")
    parser.add_argument("--vectors", type=Path, help="keep vectors in this folder, and use those that are there")
    asked = parser.parse_args()
    print(json.dumps(asyncio.run(measure(asked.sets, asked.store, asked.vectors)), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
