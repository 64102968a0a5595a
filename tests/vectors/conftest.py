"""Both stores, each on its real server; every test has a tenant of its own in them."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from memory.postgres import Pool
from memory.settings import MemorySettings, OpenSearchSettings
from memory.vectors.embedder import Embedder
from memory.vectors.index import Document, Found, Put, Query, VectorIndex, begin_first
from memory.vectors.opensearch import OpenSearchIndex
from memory.vectors.opensearch_mapping import alias_of
from memory.vectors.pgvector import PgvectorIndex
from tests.fixtures_postgres import Database
from tests.vectors.hashed import HashedEmbedder
from worker.stack.opensearch import RunningOpenSearch
from worker.stack.postgres import RunningPostgres

SECONDS = 30.0
SCOPE = "acme/api"


@dataclass
class Store:
    """An index under test, with a tenant of this test's own.

    `another` gives the same store with another embedder; `settle` returns when what was put is found.
    """

    index: VectorIndex
    tenant: str
    embedder: HashedEmbedder
    another: Callable[[Embedder | None], VectorIndex]
    settle: Callable[[str], Awaitable[None]]
    begun: set[str] = field(default_factory=set)

    def document(self, item: str, text: str, version: int = 1, **values: Any) -> Document:
        given = {"tenant": self.tenant, "scope": SCOPE, "kind": "lesson", "level": "L1", **values}
        return Document(id=item, text=text, version=version, **given)

    async def put(self, *documents: Document) -> list[str]:
        """Put documents, wait until they are found, and give what became of each."""
        await self.begin(*(document.tenant for document in documents))
        outcomes: tuple[Put, ...] = await self.index.put(documents, deadline_seconds=SECONDS)
        assert [outcome.id for outcome in outcomes] == [document.id for document in documents]
        for tenant in {document.tenant for document in documents}:
            await self.settle(tenant)
        return [outcome.outcome for outcome in outcomes]

    async def begin(self, *tenants: str) -> None:
        """Make each tenant's first generation, which documents may be put into; this test's own without a name."""
        for tenant in set(tenants or [self.tenant]) - self.begun:
            await begin_first(self.index, tenant, deadline_seconds=SECONDS)
            self.begun.add(tenant)

    async def find(self, text: str, **values: Any) -> Found:
        given = {"tenant": self.tenant, "scope": SCOPE, **values}
        return await self.index.search(Query(text=text, **given), deadline_seconds=SECONDS)

    async def ids(self, text: str, **values: Any) -> list[str]:
        return [hit.id for hit in (await self.find(text, **values)).hits]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def index_database(postgres_server: RunningPostgres, migrated_template: str) -> AsyncIterator[Database]:
    """One database for all tests of indexes: their tenants keep them apart."""
    database = Database(f"index_{uuid.uuid4().hex[:12]}", postgres_server)
    await postgres_server.run_sql(f"CREATE DATABASE {database.name} OWNER poimen_owner TEMPLATE {migrated_template};")
    yield database
    await postgres_server.run_sql(f"DROP DATABASE {database.name} WITH (FORCE);")


@pytest.fixture(scope="session")
def index_settings(index_database: Database, tmp_path_factory: pytest.TempPathFactory) -> MemorySettings:
    return settings_for(index_database.app_dsn, tmp_path_factory.mktemp("vault"))


def settings_for(dsn: str, vault: Path) -> MemorySettings:
    return MemorySettings(
        postgres_dsn=dsn,
        masking_key=b"key of the tests",
        vault_path=vault,
        tenants=("local",),
        pool_min_size=1,
        pool_max_size=4,
        # The machine that runs the tests may be busy; what is late is tested with deadlines of its own.
        connection_wait_seconds=20.0,
        call_deadline_seconds=20.0,
    )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def index_pool(index_settings: MemorySettings) -> AsyncIterator[Pool]:
    pool = Pool(index_settings)
    await pool.open()
    yield pool
    await pool.close()


@pytest.fixture
def pgvector_store(index_pool: Pool) -> Store:
    embedder = HashedEmbedder()

    async def settle(_: str) -> None:
        """What is committed is found."""

    return Store(
        PgvectorIndex(index_pool, embedder),
        f"t-{uuid.uuid4().hex}",
        embedder,
        lambda other: PgvectorIndex(index_pool, other),
        settle,
    )


@pytest_asyncio.fixture(loop_scope="session")
async def opensearch_store(opensearch_server: RunningOpenSearch) -> AsyncIterator[Store]:
    embedder, made = HashedEmbedder(), []

    def another(other: Embedder | None) -> OpenSearchIndex:
        made.append(OpenSearchIndex(OpenSearchSettings(urls=(opensearch_server.url,), request_seconds=SECONDS), other))
        return made[-1]

    async def settle(tenant: str) -> None:
        async with httpx.AsyncClient(base_url=opensearch_server.url, timeout=SECONDS) as client:
            (await client.post(f"/{alias_of(tenant)}-*/_refresh")).raise_for_status()

    yield Store(another(embedder), f"t-{uuid.uuid4().hex}", embedder, another, settle)
    for index in made:
        await index.close()


@pytest.fixture(params=["pgvector", "opensearch"])
def store(request: pytest.FixtureRequest) -> Store:
    """Each store in turn."""
    made: Store = request.getfixturevalue(f"{request.param}_store")
    return made


def by_words(store: Store) -> Store:
    """The same store without an embedder, as another tenant."""
    return replace(store, index=store.another(None), tenant=f"t-{uuid.uuid4().hex}")
