"""Tenants are kept apart by the database, as the worker's real role."""

import asyncio
import random

import pytest

from memory.errors import SchemaDiffers
from memory.journal import events_of_run, record
from memory.postgres import Pool, tenant_transaction
from tests.fixtures_postgres import Database
from tests.journal.conftest import MakeEvent

SECONDS = 30.0
TABLES = (
    "select table_name from information_schema.columns"
    " where table_schema = 'public' and column_name = 'tenant' order by 1;"
)


async def tenant_tables(database: Database) -> list[str]:
    return (await database.run_sql(TABLES)).split()


async def test_every_table_with_a_tenant_is_bound_by_forced_row_level_security(database: Database) -> None:
    unbound = await database.run_sql(
        "select relname from pg_class"
        " join information_schema.columns on table_name = relname and column_name = 'tenant'"
        " where table_schema = 'public' and relkind = 'r' and not (relrowsecurity and relforcerowsecurity);"
    )
    assert unbound.split() == []
    assert len(await tenant_tables(database)) >= 13


async def test_the_tenant_leads_every_key(database: Database) -> None:
    # journal's primary key is the position, which orders all tenants.
    leads = await database.run_sql(
        "select c.relname from pg_index i join pg_class c on c.oid = i.indrelid"
        " join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]"
        " join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = 'public' and c.relname <> 'schema_migrations' and a.attname <> 'tenant'"
        " and not (c.relname = 'journal' and i.indisprimary);"
    )
    assert leads.split() == []


async def test_no_canary_crosses_from_one_tenant_to_another(pool: Pool, make_event: MakeEvent) -> None:
    chance = random.Random(3)
    tenants = [f"tenant-{number}" for number in range(6)]

    async def act(tenant: str, number: int) -> None:
        canary = f"canary of {tenant}"
        async with tenant_transaction(pool, tenant, deadline_seconds=SECONDS) as tx:
            if chance.random() < 0.5:
                await record(tx, make_event(f"{number}", tenant=tenant, payload={"error": canary}, run="shared"))
            # Without naming the tenant: the policy alone must hold.
            seen = await tx.rows("select tenant, payload->>'error' as error from journal")
            assert {(row["tenant"], row["error"]) for row in seen} <= {(tenant, canary)}
            assert all(event.tenant == tenant for event in await events_of_run(tx, "shared"))

    await asyncio.gather(*(act(chance.choice(tenants), number) for number in range(400)))


async def insert_for(pool: Pool, tenant: str, other: str) -> None:
    async with tenant_transaction(pool, tenant, deadline_seconds=SECONDS) as tx:
        await tx.run("insert into environments (tenant, fingerprint, parts) values (%(other)s, 'f', '{}')", other=other)


async def test_a_row_for_another_tenant_cannot_be_written(database: Database, pool: Pool) -> None:
    # The state of a missing grant too, so the row is not given up for it; it is never written either.
    with pytest.raises(SchemaDiffers):
        await insert_for(pool, "mine", "theirs")
    assert (await database.run_sql("select count(*) from environments;")).strip() == "0"


async def test_a_statement_cannot_be_given_another_tenant(pool: Pool) -> None:
    async with tenant_transaction(pool, "mine", deadline_seconds=SECONDS) as tx:
        row = await tx.row("select %(tenant)s::text as tenant", tenant="theirs")
    assert row == {"tenant": "mine"}


async def test_outside_a_tenants_transaction_a_connection_sees_nothing(pool: Pool, make_event: MakeEvent) -> None:
    async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as tx:
        await record(tx, make_event())
    async with pool.connection(SECONDS) as connection:
        for table in ("journal", "outbox", "items"):
            cursor = await connection.execute(f"select count(*) as rows from {table}")
            assert await cursor.fetchone() == {"rows": 0}


async def test_a_transaction_without_a_tenant_does_not_open(pool: Pool) -> None:
    with pytest.raises(ValueError, match="needs a tenant"):
        async with tenant_transaction(pool, "", deadline_seconds=SECONDS):
            pass


@pytest.mark.parametrize("tenant", ["o'hara", "a\\b", "x', true); drop table journal; --", "%s"])
async def test_a_tenants_name_is_only_a_name(tenant: str, pool: Pool, make_event: MakeEvent) -> None:
    async with tenant_transaction(pool, tenant, deadline_seconds=SECONDS) as tx:
        await record(tx, make_event(tenant=tenant))
        assert [event.tenant for event in await events_of_run(tx, "rel-7")] == [tenant]
