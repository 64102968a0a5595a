import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from memory.errors import SchemaMismatch, StoreUnavailable
from memory.postgres import Pool, check_database, migrate, pending
from memory.postgres.migrate import shipped
from tests.fixtures_postgres import Database
from tests.journal.conftest import MakeSettings

Write = Callable[..., Path]
# Whatever is shipped, these are the next numbers.
LAST = len(shipped())
FIRST, SECOND, THIRD = (f"{LAST + number:04}" for number in (1, 2, 3))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The shipped migrations and one more, which makes a table."""
    for migration in shipped():
        (tmp_path / migration.name).write_text(migration.statements)
    (tmp_path / f"{FIRST}_extra.sql").write_text("create table extra (a int); insert into extra values (1), (2);")
    return tmp_path


async def sql(database: Database, statement: str) -> str:
    return (await database.run_sql(statement)).strip()


async def test_a_migrated_database_needs_nothing_more(database: Database) -> None:
    assert await pending(database.owner_dsn) == []
    assert await migrate(database.owner_dsn) == []


async def test_a_new_file_is_announced_then_applied_once(database: Database, folder: Path) -> None:
    assert await pending(database.owner_dsn, folder=folder) == [f"{FIRST}_extra.sql"]
    assert await sql(database, "select to_regclass('extra') is null;") == "t"
    assert await migrate(database.owner_dsn, folder=folder) == [f"{FIRST}_extra.sql"]
    assert await migrate(database.owner_dsn, folder=folder) == []
    assert await sql(database, "select count(*) from extra;") == "2"


async def test_many_starts_at_once_apply_a_file_once(database: Database, folder: Path) -> None:
    applied = await asyncio.gather(*(migrate(database.owner_dsn, folder=folder) for _ in range(6)))
    assert sorted(applied) == [[], [], [], [], [], [f"{FIRST}_extra.sql"]]
    assert await sql(database, "select count(*) from extra;") == "2"


async def test_a_file_that_fails_leaves_nothing_of_itself(database: Database, folder: Path) -> None:
    (folder / f"{SECOND}_broken.sql").write_text("create table half (a int); select no_such_function();")
    with pytest.raises(SchemaMismatch, match=f"Migration {SECOND} failed"):
        await migrate(database.owner_dsn, folder=folder)
    assert await sql(database, "select to_regclass('half') is null, to_regclass('extra') is null;") == "t|f"
    (folder / f"{SECOND}_broken.sql").write_text("create table half (a int);")
    assert await migrate(database.owner_dsn, folder=folder) == [f"{SECOND}_broken.sql"]


async def test_a_file_changed_after_it_was_applied_is_refused(database: Database, folder: Path) -> None:
    await migrate(database.owner_dsn, folder=folder)
    (folder / f"{FIRST}_extra.sql").write_text("create table other (a int);")
    (folder / f"{SECOND}_more.sql").write_text("create table more (a int);")
    with pytest.raises(SchemaMismatch, match=f"{FIRST} was changed"):
        await migrate(database.owner_dsn, folder=folder)
    assert await sql(database, "select to_regclass('more') is null;") == "t"


async def test_other_line_ends_are_no_change(database: Database, folder: Path) -> None:
    text = "create table ends (a int);\ninsert into ends values (1);\n"
    (folder / f"{SECOND}_ends.sql").write_bytes(text.encode())
    await migrate(database.owner_dsn, folder=folder)
    (folder / f"{SECOND}_ends.sql").write_bytes(text.replace("\n", "\r\n").encode())
    assert await migrate(database.owner_dsn, folder=folder) == []


async def test_a_database_ahead_of_the_program_is_refused(database: Database, folder: Path, pool: Pool) -> None:
    await migrate(database.owner_dsn, folder=folder)
    with pytest.raises(SchemaMismatch, match=f"{FIRST}, which this program does not know"):
        await migrate(database.owner_dsn)
    with pytest.raises(SchemaMismatch, match="update the program"):
        await check_database(pool)


@pytest.mark.parametrize(
    "name", [f"{THIRD}_gap.sql", f"{FIRST}_double.sql", f"{LAST + 1}_short.sql", f"{SECOND}-dash.sql"]
)
async def test_misnumbered_files_are_refused_before_anything_is_applied(
    name: str, database: Database, folder: Path
) -> None:
    (folder / name).write_text("create table wrong (a int);")
    with pytest.raises(SchemaMismatch):
        await migrate(database.owner_dsn, folder=folder)
    assert await sql(database, "select to_regclass('extra') is null;") == "t"


async def test_a_table_in_use_is_not_waited_for_without_end(database: Database, folder: Path) -> None:
    (folder / f"{FIRST}_extra.sql").write_text(
        "set local lock_timeout = '50ms'; alter table journal add column extra int;"
    )
    locks = "select count(*) from pg_locks where mode = 'AccessExclusiveLock' and relation = 'journal'::regclass;"
    hold = asyncio.create_task(database.run_sql("begin; lock table journal; select pg_sleep(1.5); commit;"))
    async with asyncio.timeout(20):
        while await sql(database, locks) == "0":
            continue
        with pytest.raises(StoreUnavailable):
            await migrate(database.owner_dsn, folder=folder)
        await hold


async def test_the_owner_and_the_superuser_are_refused_at_the_start(
    database: Database, make_settings: MakeSettings
) -> None:
    for dsn, reason in ((database.owner_dsn, "owns the tables"), (database.superuser_dsn, "is a superuser")):
        pool = Pool(make_settings(postgres_dsn=dsn))
        await pool.open()
        with pytest.raises(SchemaMismatch, match=reason):
            await check_database(pool)
        await pool.close()


async def test_an_empty_database_says_how_to_fill_it(database: Database, pool: Pool) -> None:
    await database.run_sql("drop table schema_migrations;")
    with pytest.raises(SchemaMismatch, match="poimen migrate"):
        await check_database(pool)
