from collections.abc import Awaitable, Callable

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from tests.fixtures_postgres import Database
from tests.tcp_proxy import TcpProxy
from worker.stack.child import ChildError


async def test_each_test_gets_a_database_of_its_own_with_pgvector(
    new_database: Callable[[], Awaitable[Database]],
) -> None:
    first, second = await new_database(), await new_database()
    await first.run_sql("CREATE TABLE only_here (v vector(3));")
    assert await second.run_sql("SELECT to_regclass('only_here') IS NULL;") == "t\n"


async def test_the_application_role_is_neither_owner_nor_superuser(database: Database) -> None:
    script = """
        SELECT rolsuper, rolbypassrls, rolcreatedb, pg_has_role('poimen_app', 'poimen_owner', 'MEMBER')
        FROM pg_roles WHERE rolname = current_user;
    """
    assert await database.server.run_sql(script, database.app_dsn) == "f|f|f|f\n"
    with pytest.raises(ChildError, match="permission denied"):
        await database.server.run_sql("CREATE TABLE t (i int);", database.app_dsn)


async def test_the_proxy_forwards_refuses_and_forwards_again(
    database: Database, tcp_proxy: Callable[[str, int], Awaitable[TcpProxy]]
) -> None:
    proxy = await tcp_proxy(database.server.host, database.server.port)
    dsn = database.app_dsn_through(proxy)
    assert await database.server.run_sql("SELECT 1;", dsn) == "1\n"
    await proxy.refuse()
    with pytest.raises(ChildError, match="refused"):
        await database.server.run_sql("SELECT 1;", dsn)
    await proxy.pass_on()
    assert await database.server.run_sql("SELECT 2;", dsn) == "2\n"


async def test_a_black_hole_connects_and_answers_nothing(
    database: Database, tcp_proxy: Callable[[str, int], Awaitable[TcpProxy]]
) -> None:
    proxy = await tcp_proxy(database.server.host, database.server.port)
    proxy.black_hole()
    with pytest.raises(ChildError, match="timeout expired"):
        await database.server.run_sql("SELECT 1;", database.app_dsn_through(proxy) + "&connect_timeout=2")
    assert proxy.connections > 0


async def test_the_dev_server_answers(temporal_client: Client, task_queue: str) -> None:
    assert task_queue
    assert [item async for item in temporal_client.list_workflows(f"TaskQueue = '{task_queue}'")] == []


async def test_the_time_skipping_server_answers(time_skipping: WorkflowEnvironment) -> None:
    assert time_skipping.supports_time_skipping
    assert (await time_skipping.get_current_time()).year >= 2025
