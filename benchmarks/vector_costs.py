"""Measure what a search of tier 2 costs: python -m benchmarks.vector_costs [--items N ...] [--scope N] [--opensearch]

On servers of its own, with vectors that are made beforehand: a search without embedding against the store's own bare
query for the nearest of the same scope, and its growth from a small table to a large one. Prints one JSON object.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import sys
import tempfile
import time
import uuid
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import structlog

from memory.postgres import Pool, tenant_transaction
from memory.postgres.migrate import migrate
from memory.settings import MemorySettings, OpenSearchSettings
from memory.vectors.embedder import Vectors
from memory.vectors.evaluation.measures import at_share
from memory.vectors.index import Document, Query, VectorIndex, begin_first
from memory.vectors.opensearch import OpenSearchIndex
from memory.vectors.opensearch_cluster import Cluster, end_of
from memory.vectors.opensearch_mapping import index_of
from memory.vectors.pgvector import PgvectorIndex
from memory.vectors.tokens import query_terms
from worker.stack.opensearch import OpenSearchPorts, opensearch_server
from worker.stack.opensearch_build import default_cache
from worker.stack.postgres import RunningPostgres, postgres_server
from worker.stack.state import choose_ports

DIMENSION: Final = 384
TOPICS: Final = 400
WORDS: Final = 30_000
SECONDS: Final = 120.0
AT_ONCE: Final = 200

_RAW_TABLE: Final = """
CREATE TABLE raw_vectors (scope text NOT NULL, id bigint NOT NULL, embedding vector(384) NOT NULL);
CREATE INDEX ON raw_vectors (scope);
GRANT SELECT, INSERT ON raw_vectors TO poimen_app;
"""
_RAW_PUT: Final = """
INSERT INTO raw_vectors
SELECT given.scope, given.id, given.embedding::vector
FROM unnest(%(scopes)s::text[], %(ids)s::bigint[], %(embeddings)s::text[]) AS given (scope, id, embedding)
"""
_RAW_SEARCH: Final = """
SELECT id, 1 - (embedding <=> %(vector)s::vector) FROM raw_vectors
WHERE scope = %(scope)s ORDER BY embedding <=> %(vector)s::vector LIMIT 10
"""


class MadeBefore:
    """An Embedder whose vectors cost nothing: a direction for the text's topic, and a noise of the text's own."""

    name = "made-before"
    dimension = DIMENSION

    def __init__(self) -> None:
        self._topics = np.random.default_rng(1).standard_normal((TOPICS, DIMENSION)).astype(np.float32)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return np.array([self.vector(text) for text in texts], np.float32).reshape(len(texts), DIMENSION)

    def vector(self, text: str) -> Vectors:
        """Give the vector of a text that begins with the number of its topic."""
        topic = int(text.split(" ", 1)[0].removeprefix("topic"))
        noise = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(DIMENSION)
        mixed = self._topics[topic] + noise
        unit: Vectors = (mixed / np.linalg.norm(mixed)).astype(np.float32)
        return unit


def texts(seed: int, number: int, words: int) -> Iterator[str]:
    """Give texts of a topic each, their words as common and as rare as those of a language are."""
    chance = np.random.default_rng(seed)
    for _ in range(number):
        topic = int(chance.integers(TOPICS))
        # A third of the words are the topic's own.
        ranks = np.minimum(chance.zipf(1.3, words), WORDS)
        own = chance.random(words) < 1 / 3
        spoken = [f"t{topic}w{rank % 40}" if mine else f"word{rank}" for rank, mine in zip(ranks, own, strict=True)]
        yield f"topic{topic} {' '.join(spoken)}"


@dataclass(frozen=True)
class Store:
    """A store that is filled step by step, and its bare query for the nearest."""

    index: VectorIndex
    tenant: str
    keep: Callable[[str, int, Sequence[str]], Awaitable[None]]
    bare: Callable[[str, str], Awaitable[object]]

    async def fill(self, scope: str, seed: int, number: int) -> float:
        """Put documents into a scope; give the seconds that the store took."""
        await begin_first(self.index, self.tenant, deadline_seconds=SECONDS)
        taken, made = 0.0, list(texts(seed, number, 40))
        for start in range(0, number, AT_ONCE):
            batch = made[start : start + AT_ONCE]
            documents = [
                Document(
                    tenant=self.tenant,
                    scope=scope,
                    id=f"{seed}-{start + at}",
                    kind="lesson",
                    level="L1",
                    text=text,
                    version=1,
                )
                for at, text in enumerate(batch)
            ]
            began = time.perf_counter()
            await self.index.put(documents, deadline_seconds=SECONDS)
            taken += time.perf_counter() - began
            await self.keep(scope, seed * 1_000_000 + start, batch)
        return taken

    async def search(self, scope: str, text: str) -> object:
        query = Query(tenant=self.tenant, scope=scope, text=text, cut_off=False)
        return await self.index.search(query, deadline_seconds=SECONDS)


@contextlib.asynccontextmanager
async def in_postgres(embedder: MadeBefore, folder: Path) -> AsyncIterator[Store]:
    """Give pgvector on a server of its own, beside a table of nothing but vectors."""
    port = choose_ports(["postgres"])["postgres"]
    server = postgres_server(folder / "server", port=port, log=folder / "log")
    async with server as postgres, migrated_pool(postgres) as pool:
        await postgres.run_sql(_RAW_TABLE, postgres.owner_dsn)
        tenant = f"bench-{uuid.uuid4().hex}"

        async def keep(scope: str, first: int, batch: Sequence[str]) -> None:
            async with tenant_transaction(pool, tenant, deadline_seconds=SECONDS) as tx:
                await tx.run(
                    _RAW_PUT,
                    scopes=[scope] * len(batch),
                    ids=list(range(first, first + len(batch))),
                    embeddings=[json.dumps(embedder.vector(text).tolist()) for text in batch],
                )

        async def bare(scope: str, text: str) -> object:
            async with tenant_transaction(pool, tenant, deadline_seconds=SECONDS) as tx:
                return await tx.rows(_RAW_SEARCH, scope=scope, vector=json.dumps(embedder.vector(text).tolist()))

        yield Store(PgvectorIndex(pool, embedder), tenant, keep, bare)


@contextlib.asynccontextmanager
async def migrated_pool(postgres: RunningPostgres) -> AsyncIterator[Pool]:
    """Give a pool on a server's database, brought to this version's schema."""
    settings = MemorySettings(
        postgres_dsn=postgres.app_dsn, masking_key=b"a key for benchmarks", vault_path=Path(), pool_min_size=1
    )
    await migrate(postgres.owner_dsn)
    pool = Pool(settings)
    await pool.open()
    try:
        yield pool
    finally:
        await pool.close()


@contextlib.asynccontextmanager
async def in_opensearch(embedder: MadeBefore, folder: Path) -> AsyncIterator[Store]:
    """Give OpenSearch on a node of its own; its bare query asks the same index by words and for the nearest."""
    ports = OpenSearchPorts(*choose_ports(["http", "transport"]).values())
    node = opensearch_server(folder / "node", ports=ports, log=folder / "log", cache=default_cache())
    async with node as running:
        settings = OpenSearchSettings(urls=(running.url,), request_seconds=SECONDS)
        cluster, tenant = Cluster(settings), f"bench-{uuid.uuid4().hex}"

        async def keep(scope: str, first: int, batch: Sequence[str]) -> None:
            """Store nothing more: the bare query reads the same index."""

        async def bare(scope: str, text: str) -> object:
            allowed = {"bool": {"filter": [{"term": {"scope": scope}}, {"term": {"state": "active"}}]}}
            vector = [round(float(number), 7) for number in embedder.vector(text)]
            should = [{"term": {"lex": term}} for term in query_terms(text)]
            words = {"bool": {"filter": [allowed], "should": should, "minimum_should_match": 1}}
            near = {"knn": {"v": {"vector": vector, "k": 50, "filter": allowed}}}
            asked = [{"size": 50, "_source": False, "query": query} for query in (words, near)]
            body = "".join(f"{{}}\n{json.dumps(one)}\n" for one in asked)
            return await cluster.ask("POST", f"/{index_of(tenant, 1)}/_msearch", body, ends_at=end_of(SECONDS))

        index = OpenSearchIndex(settings, embedder)
        try:
            yield Store(index, tenant, keep, bare)
        finally:
            await index.close()
            await cluster.close()


async def measure_at(store: Store, scopes: Sequence[str], times: int) -> dict[str, Any]:
    """Search and ask the bare query in turn, the same queries over the same scopes."""
    asked = list(texts(7, times, 12))
    searches, bare = list[float](), list[float]()
    for at in range(-20, times):  # the first ones warm caches and are not counted
        scope, text = scopes[at % len(scopes)], asked[at % times]
        for what, seconds in ((store.search, searches), (store.bare, bare)):
            began = time.perf_counter()
            await what(scope, text)
            if at >= 0:
                seconds.append(time.perf_counter() - began)
    figures = {
        name: {f"p{share}_ms": round(1_000 * at_share(seconds, share / 100), 2) for share in (50, 95)}
        for name, seconds in (("search", searches), ("bare", bare))
    }
    ratios = {name: round(figures["search"][name] / figures["bare"][name], 2) for name in ("p50_ms", "p95_ms")}
    return {**figures, "search_to_bare": {name.removesuffix("_ms"): value for name, value in ratios.items()}}


async def measure(
    opened: contextlib.AbstractAsyncContextManager[Store], items: Sequence[int], scope_items: int, times: int
) -> dict[str, Any]:
    """Fill a store to each of the sizes, in scopes of the same size, and measure there."""
    async with opened as store:
        scopes, steps = list[str](), dict[str, Any]()
        for size in sorted(items):
            before, taken = len(scopes), 0.0
            while len(scopes) * scope_items < size:
                taken += await store.fill(f"scope {len(scopes)}", len(scopes) + 1, scope_items)
                scopes.append(f"scope {len(scopes)}")
                print(f"{store.index.name}: {len(scopes) * scope_items:,} items", file=sys.stderr, flush=True)
            put = (len(scopes) - before) * scope_items
            measured = await measure_at(store, scopes, times)
            steps[str(size)] = {**measured, "adds_per_second": round(put / taken, 1)}
        low, high = (steps[str(size)]["search"] for size in (min(items), max(items)))
        growth = {name: round(high[f"{name}_ms"] / low[f"{name}_ms"], 2) for name in ("p50", "p95")}
        return {"scope_items": scope_items, "items": steps, "growth": growth}


def main() -> int:
    """Read the command line and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[10_000, 100_000], help="sizes to measure at")
    parser.add_argument("--scope", type=int, default=10_000, help="items of a scope")
    parser.add_argument("--times", type=int, default=200, help="searches at each size")
    parser.add_argument("--opensearch", action="store_true", help="OpenSearch, and not PostgreSQL")
    asked = parser.parse_args()
    store = "opensearch" if asked.opensearch else "pgvector"
    print(json.dumps(measured(store, asked.items, asked.scope, asked.times), indent=1))
    return 0


def measured(store: str, items: Sequence[int], scope_items: int, times: int) -> dict[str, Any]:
    """Measure one store on a server of its own."""
    # The figures go to stdout.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    embedder = MadeBefore()
    with tempfile.TemporaryDirectory() as folder:
        opened = (in_opensearch if store == "opensearch" else in_postgres)(embedder, Path(folder))
        figures = asyncio.run(measure(opened, items, scope_items, times))
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    return {"store": store, "machine": machine, **figures}


if __name__ == "__main__":
    sys.exit(main())
