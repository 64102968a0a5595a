"""Refuse to start on a database that would not keep tenants apart, or that has another schema."""

from memory.errors import SchemaMismatch
from memory.postgres.driver_errors import translated
from memory.postgres.migrate import SQL, compare, shipped
from memory.postgres.pool import Pool


async def check_database(pool: Pool, *, deadline_seconds: float = 10.0) -> None:
    """Return when this worker may use the database.

    Raises SchemaMismatch with the reason when it may not: migrations missing or of a newer program, or a role that
    row-level security does not bind. Raises StoreUnavailable when the database does not answer.
    """
    with translated():
        async with pool.connection(deadline_seconds) as connection:
            role = await (await connection.execute(SQL["role_of_session"])).fetchone()
            there = await (await connection.execute(SQL["history_exists"])).fetchone()
            if there is None or not there["found"]:
                raise SchemaMismatch("The database is empty; run poimen migrate.")
            history = await (await connection.execute(SQL["read_history"])).fetchall()
    if role is None or role["unbound"]:
        raise SchemaMismatch("The worker's role is a superuser or bypasses row-level security; give it another.")
    if role["owner"]:
        raise SchemaMismatch("The worker's role owns the tables; give it one that row-level security binds.")
    missing = compare(shipped(), history)
    if missing:
        raise SchemaMismatch(f"The database lacks {len(missing)} migrations; run poimen migrate.")
