"""Few round trips, and still one transaction."""

import pytest

from memory.errors import Rejected
from memory.postgres import Pool, statement, tenant_transaction
from tests.fixtures_postgres import Database
from tests.journal.conftest import MakeSettings

SECONDS = 20.0
INSERT = "insert into environments (tenant, fingerprint, parts) values (%(tenant)s, %(name)s, '{}')"
WHICH = statement("select pg_current_xact_id()::text as id, current_setting('app.tenant') as tenant")


async def kept(database: Database) -> str:
    return (await database.run_sql("select fingerprint from environments order by 1;")).strip()


async def deferring(pool: Pool, *names: str, error: Exception | None = None) -> None:
    async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as tx:
        await tx.row("select 1")
        for name in names:
            tx.defer(INSERT, name=name)
        if error is not None:
            raise error


async def test_what_is_gathered_at_once_is_one_transaction_of_the_tenant(pool: Pool) -> None:
    async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as tx:
        rows = await tx.gather(WHICH, WHICH, last=True)
    assert rows[0] == rows[1]
    assert rows[0][0]["tenant"] == "local"


async def test_what_follows_is_of_the_same_transaction(pool: Pool) -> None:
    async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as tx:
        first = await tx.gather(WHICH)
        assert await tx.gather(WHICH, last=True) == first


async def test_an_error_of_one_undoes_all_that_was_gathered_with_it(pool: Pool, database: Database) -> None:
    for last in (False, True):
        with pytest.raises(Rejected):
            async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as tx:
                await tx.gather(statement(INSERT, name="a"), statement("select 1 / 0"), last=last)
    assert await kept(database) == ""


async def test_what_is_deferred_is_there_for_the_next_statement(pool: Pool) -> None:
    async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as tx:
        tx.defer(INSERT, name="a")
        assert await tx.rows("select fingerprint from environments") == [{"fingerprint": "a"}]


async def test_what_is_deferred_to_the_end_is_committed_together_or_not_at_all(pool: Pool, database: Database) -> None:
    with pytest.raises(Rejected):
        await deferring(pool, "a", "a")
    assert await kept(database) == ""
    await deferring(pool, "a", "b")
    assert await kept(database) == "a\nb"


async def test_a_block_that_raises_sends_nothing_of_what_it_deferred(pool: Pool, database: Database) -> None:
    with pytest.raises(LookupError):
        await deferring(pool, "a", error=LookupError())
    assert await kept(database) == ""


async def test_nothing_follows_the_last_statement(pool: Pool) -> None:
    async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as tx:
        await tx.gather(WHICH, last=True)
        with pytest.raises(RuntimeError, match="is committed"):
            await tx.row("select 1")


async def test_a_tenant_ends_with_its_transaction(make_settings: MakeSettings) -> None:
    pool = Pool(make_settings(pool_min_size=1, pool_max_size=1, connection_wait_seconds=SECONDS))
    await pool.open()
    for last in (False, True):
        async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as tx:
            await tx.gather(WHICH, last=last)
    async with pool.connection(SECONDS) as connection:
        row = await (await connection.execute("select current_setting('app.tenant', true) as tenant")).fetchone()
    assert row == {"tenant": ""}
    await pool.close()


@pytest.mark.parametrize(("durable", "told"), [(True, "same"), (False, "off")])
async def test_only_what_need_not_be_durable_is_not_waited_for(pool: Pool, durable: bool, told: str) -> None:
    setting = "select current_setting('synchronous_commit') as now, reset_val as before from pg_settings"
    async with tenant_transaction(pool, "local", deadline_seconds=SECONDS, durable=durable) as tx:
        row = await tx.row(f"{setting} where name = 'synchronous_commit'")
    assert row is not None
    assert row["now"] == (row["before"] if told == "same" else "off")
