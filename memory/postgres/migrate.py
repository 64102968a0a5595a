"""Bring a database to this program's schema: numbered SQL files, each applied once, in order, by the owner."""

import contextlib
import hashlib
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, LiteralString

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row

from memory.errors import PoimenError, SchemaDiffers, SchemaMismatch, StoreUnavailable
from memory.postgres.connecting import NotConnected, why_not_connected
from memory.postgres.driver_errors import translated
from memory.postgres.queries import load_queries

SQL = load_queries(__package__, "schema.sql")
_FILE_NAME = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
# Other migrators are waited for; a busy table is not, for everybody queues behind whoever waits for its lock.
_MIGRATOR_WAIT = "60s"
_TABLE_WAIT = "5s"


@dataclass(frozen=True, slots=True)
class Migration:
    """One file: its number, its name and the SHA-256 of its text."""

    number: int
    name: str
    checksum: str
    statements: str


def shipped(folder: Traversable | None = None) -> list[Migration]:
    """Return the program's migrations in order, or raise SchemaMismatch for a misnamed, missing or double number."""
    folder = folder or files(__package__) / "migrations"
    found = [_read(file) for file in folder.iterdir() if file.name.endswith(".sql")]
    found.sort(key=lambda migration: migration.name)
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise SchemaMismatch("The migrations are not numbered 0001, 0002 and so on without a gap.")
    return found


async def migrate(owner_dsn: str, *, folder: Traversable | None = None) -> list[str]:
    """Apply what is not applied yet, a transaction a file, and return the names of the files.

    Safe to run again and from several processes at once. Raises SchemaMismatch, before anything is applied, when
    a file was changed after it was applied or the database knows one that this program does not; and when a file
    fails, of which then nothing is applied.
    """
    migrations = shipped(folder)
    async with _owner(owner_dsn) as connection:
        with translated():
            await _prepare(connection)
            todo = _not_applied(migrations, await _history(connection))
        for migration in todo:
            await _apply(connection, migration)
    return [migration.name for migration in todo]


async def pending(owner_dsn: str, *, folder: Traversable | None = None) -> list[str]:
    """Return the names of the files that `migrate` would apply, and change nothing."""
    async with _owner(owner_dsn) as connection:
        with translated():
            todo = _not_applied(shipped(folder), await _history(connection))
    return [migration.name for migration in todo]


def compare(migrations: Sequence[Migration], history: Sequence[DictRow]) -> list[str]:
    """Return the names of what is missing from a database's history; raise SchemaMismatch when the two disagree."""
    return [migration.name for migration in _not_applied(migrations, history)]


@contextlib.asynccontextmanager
async def _owner(dsn: str) -> AsyncIterator[AsyncConnection[DictRow]]:
    # prepare_threshold: a file holds many statements, which only the simple protocol takes.
    with translated():
        try:
            connection = await AsyncConnection.connect(
                dsn, autocommit=True, row_factory=dict_row, connect_timeout=5, prepare_threshold=None
            )
        except psycopg.ProgrammingError as error:  # of the text alone: nothing was asked of a server yet
            raise NotConnected.because_of(why_not_connected(error)) from error
    async with connection:
        yield connection


async def _prepare(connection: AsyncConnection[DictRow]) -> None:
    role = await _one(connection, SQL["role_exists"])
    if not role["found"]:
        raise SchemaMismatch("The role poimen_app does not exist; create it before the first migration.")
    vector = (await _one(connection, SQL["vector_version"]))["version"]
    if vector is None:
        raise SchemaMismatch(
            "The database has no extension vector; install pgvector 0.8 or newer and let a superuser run "
            "CREATE EXTENSION vector in it."
        )
    if tuple(map(int, re.findall(r"\d+", vector)[:2])) < (0, 8):
        raise SchemaMismatch(f"The extension vector is {vector}, too old; install pgvector 0.8 and update it.")
    await connection.execute(SQL["set_lock_wait"], {"wait": _MIGRATOR_WAIT})
    await connection.execute(SQL["lock_schema"])
    await connection.execute(SQL["set_lock_wait"], {"wait": _TABLE_WAIT})
    if not (await _one(connection, SQL["history_exists"]))["found"]:
        await connection.execute(SQL["create_history"])


async def _history(connection: AsyncConnection[DictRow]) -> list[DictRow]:
    if not (await _one(connection, SQL["history_exists"]))["found"]:
        return []
    cursor = await connection.execute(SQL["read_history"])
    return await cursor.fetchall()


async def _one(connection: AsyncConnection[DictRow], query: LiteralString) -> DictRow:
    row = await (await connection.execute(query)).fetchone()
    assert row is not None
    return row


def _not_applied(migrations: Sequence[Migration], history: Sequence[DictRow]) -> list[Migration]:
    known = {migration.number: migration for migration in migrations}
    for row in history:
        migration = known.get(row["number"])
        if migration is None:
            raise SchemaMismatch(
                f"The database has migration {row['number']:04}, which this program does not know; update the program."
            )
        if migration.checksum != row["checksum"] or migration.name != row["name"]:
            raise SchemaMismatch(f"Migration {migration.number:04} was changed after it was applied.")
    applied = {row["number"] for row in history}
    return [migration for migration in migrations if migration.number not in applied]


async def _apply(connection: AsyncConnection[DictRow], migration: Migration) -> None:
    try:
        async with connection.transaction():
            # Bytes: the file is the program's own, and holds percent signs and several statements.
            await connection.execute(migration.statements.encode())
            await connection.execute(SQL["add_to_history"], _note(migration))
    except psycopg.Error as error:
        raise _failed(migration, error) from error


def _note(migration: Migration) -> dict[str, Any]:
    return {"number": migration.number, "name": migration.name, "checksum": migration.checksum}


def _failed(migration: Migration, error: psycopg.Error) -> PoimenError:
    try:
        with translated():
            raise error
    except SchemaDiffers:
        pass
    except StoreUnavailable as unavailable:
        return unavailable
    except PoimenError:
        pass
    state = error.sqlstate or "none"
    return SchemaMismatch(f"Migration {migration.number:04} failed (SQLSTATE {state}); nothing of it was applied.")


def _read(file: Traversable) -> Migration:
    name = _FILE_NAME.fullmatch(file.name)
    if name is None:
        raise SchemaMismatch("A migration is not named like 0001_what_it_adds.sql.")
    # A checkout with other line ends is the same file.
    text = file.read_text(encoding="utf-8").replace("\r\n", "\n")
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return Migration(int(name[1]), file.name, checksum, text)
