"""A real PostgreSQL a session; a fresh migrated database a test; a proxy that can break the connection."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest
import pytest_asyncio

from memory.postgres.migrate import migrate
from tests.tcp_proxy import TcpProxy, open_proxy
from worker.stack.child import on_free_ports
from worker.stack.postgres import RunningPostgres
from worker.stack.postgres import postgres_server as run_postgres
from worker.stack.state import choose_ports

_TEMPLATE = "poimen_template"


@dataclass(frozen=True)
class Database:
    """One database. A DSN carries no password: it names a password file."""

    name: str
    server: RunningPostgres

    @property
    def owner_dsn(self) -> str:
        """The owner of the schema, who migrates."""
        return self.server.dsn("poimen_owner", self.name)

    @property
    def app_dsn(self) -> str:
        """The worker's role, bound by row-level security."""
        return self.server.dsn("poimen_app", self.name)

    @property
    def superuser_dsn(self) -> str:
        """Bypasses row-level security; for looking at what is really stored."""
        return self.server.dsn("postgres", self.name)

    def app_dsn_through(self, proxy: TcpProxy) -> str:
        """The worker's DSN with a proxy in between."""
        return self.app_dsn.replace(f":{self.server.port}/", f":{proxy.port}/")

    async def run_sql(self, script: str) -> str:
        """Run a script as the superuser; return what psql prints, unaligned, without headings."""
        return await self.server.run_sql(script, self.superuser_dsn)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningPostgres]:
    """One server for the whole session, without durability."""
    folder = tmp_path_factory.mktemp("postgres")
    log = folder / "postgres.log"
    async with on_free_ports(
        lambda: choose_ports(["postgres"])["postgres"],
        lambda port: run_postgres(folder / "server", port=port, log=log, durable=False),
    ) as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def migrated_template(postgres_server: RunningPostgres) -> str:
    """The name of a migrated database that every test's own is cloned from; nothing may connect to it."""
    await _create(postgres_server, _TEMPLATE, "template1")
    await postgres_server.run_sql("CREATE EXTENSION vector;", postgres_server.dsn("postgres", _TEMPLATE))
    await migrate(postgres_server.dsn("poimen_owner", _TEMPLATE))
    return _TEMPLATE


@pytest_asyncio.fixture(loop_scope="session")
async def new_database(
    postgres_server: RunningPostgres, migrated_template: str
) -> AsyncIterator[Callable[[], Awaitable[Database]]]:
    """A factory of fresh migrated databases, dropped after the test."""
    made: list[str] = []

    async def create() -> Database:
        name = f"test_{uuid.uuid4().hex[:12]}"
        await _create(postgres_server, name, migrated_template)
        made.append(name)
        return Database(name, postgres_server)

    yield create
    if made:
        drops = "".join(f"DROP DATABASE {name} WITH (FORCE);\n" for name in made)
        await postgres_server.run_sql(drops)


@pytest_asyncio.fixture(loop_scope="session")
async def database(new_database: Callable[[], Awaitable[Database]]) -> Database:
    """A fresh migrated database of this test's own."""
    return await new_database()


@pytest_asyncio.fixture(loop_scope="session")
async def tcp_proxy() -> AsyncIterator[Callable[[str, int], Awaitable[TcpProxy]]]:
    """A factory: `await tcp_proxy(host, port)` gives a proxy that passes on until told otherwise."""
    opened: list[TcpProxy] = []

    async def create(host: str, port: int) -> TcpProxy:
        opened.append(await open_proxy(host, port))
        return opened[-1]

    yield create
    for proxy in opened:
        await proxy.close()


async def _create(server: RunningPostgres, name: str, template: str) -> None:
    await server.run_sql(f"CREATE DATABASE {name} OWNER poimen_owner TEMPLATE {template};")
