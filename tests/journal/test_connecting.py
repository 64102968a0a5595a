"""Why no connection can be had is told in a sentence, by the kind of what is wrong."""

import contextlib
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from memory.errors import StoreUnavailable
from memory.postgres import Pool, check_database, migrate, tenant_transaction
from memory.postgres import pool as pool_module
from memory.settings import MemorySettings
from tests.fixtures_postgres import Database

REFUSED = "Postgres refuses the user or its password."


def with_wrong_password(dsn: str) -> str:
    return dsn.replace("@", ":not-the-password@")


def with_unknown_user(dsn: str) -> str:
    return re.sub("//[^@]*@", "//stranger:secret@", dsn)


def without_password(dsn: str) -> str:
    return dsn.partition("?")[0] + "?passfile=/nowhere"


def of_unknown_database(dsn: str) -> str:
    return dsn.replace("?", "-not-there?")


def of_closed_port(dsn: str) -> str:
    return re.sub(r":\d+/", ":1/", dsn)


def with_unknown_option(dsn: str) -> str:
    return dsn + "&colour=blue"


WRONG = [
    (with_wrong_password, REFUSED),
    (with_unknown_user, REFUSED),
    (without_password, "Postgres asks for a password, and none is set for this user."),
    (of_unknown_database, "Postgres has no database of the name that is set."),
    (of_closed_port, "Postgres cannot be reached."),
]
UNREADABLE = (with_unknown_option, "The connection string of Postgres cannot be read.")


@contextlib.asynccontextmanager
async def opened(dsn: str, folder: Path) -> AsyncIterator[Pool]:
    pool = Pool(MemorySettings(postgres_dsn=dsn, masking_key=b"key", vault_path=folder, connection_wait_seconds=3.0))
    await pool.open()
    try:
        yield pool
    finally:
        await pool.close()


@pytest.mark.parametrize(("spoilt", "sentence"), [*WRONG, UNREADABLE])
async def test_a_pool_says_why_it_has_no_connection_first_and_later(
    database: Database, tmp_path: Path, spoilt: Callable[[str], str], sentence: str
) -> None:
    async with opened(spoilt(database.app_dsn), tmp_path) as pool:
        for _ in range(2):
            with pytest.raises(StoreUnavailable) as raised:
                await check_database(pool, deadline_seconds=3.0)
            assert str(raised.value) == sentence


@pytest.mark.parametrize(("spoilt", "sentence"), [*WRONG, UNREADABLE])
async def test_migrating_says_why_it_has_no_connection(
    database: Database, spoilt: Callable[[str], str], sentence: str
) -> None:
    with pytest.raises(StoreUnavailable) as raised:
        await migrate(spoilt(database.owner_dsn))
    assert str(raised.value) == sentence


async def test_a_database_that_lets_nobody_in_is_not_told_as_one_out_of_reach(
    database: Database, tmp_path: Path
) -> None:
    await database.server.run_sql(f"ALTER DATABASE {database.name} WITH CONNECTION LIMIT 0;")
    async with opened(database.app_dsn, tmp_path) as pool:
        with pytest.raises(StoreUnavailable, match=r"^Postgres answers, and refuses the connection\.$"):
            await check_database(pool, deadline_seconds=3.0)


async def test_a_pool_that_loses_its_database_says_once_why(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "_log", structlog.get_logger())
    async with opened(database.app_dsn, tmp_path) as pool:
        async with tenant_transaction(pool, "default", deadline_seconds=3.0) as tx:
            await tx.row("select 1")
        with capture_logs() as logs:
            await database.server.run_sql(
                f"ALTER DATABASE {database.name} WITH CONNECTION LIMIT 0;"
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database.name}';"
            )
            # The first ones find a connection that is broken; only then is a new one tried.
            refusals = 0
            while refusals < 2:
                with pytest.raises(StoreUnavailable) as raised:
                    await check_database(pool, deadline_seconds=1.0)
                refusals += str(raised.value) == "Postgres answers, and refuses the connection."
    assert [log["why"] for log in logs] == ["Postgres answers, and refuses the connection."]
