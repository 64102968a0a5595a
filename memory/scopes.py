"""Which scopes of a tenant hold knowledge: for people who look around. A step always names its one scope."""

from memory.postgres import load_queries, tenant_transaction
from memory.stores import Stores

SQL = load_queries(__package__, "scopes.sql")
DEADLINE_SECONDS = 5.0


async def scopes(stores: Stores, tenant: str, *, limit: int = 50) -> tuple[str, ...]:
    """Return the scopes with active items, the latest first. Raises StoreUnavailable."""
    async with tenant_transaction(stores.pool, tenant, deadline_seconds=DEADLINE_SECONDS) as tx:
        rows = await tx.rows(SQL["scopes"], limit=limit)
    return tuple(row["scope"] for row in rows)
