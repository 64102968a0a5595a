"""HealthCheck: say of each tier whether it answers, in a sentence, within a second."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from memory.errors import PoimenError, StoreUnavailable
from memory.journal.follow import FollowerSettings
from memory.postgres import load_queries, tenant_transaction
from memory.stores import Stores
from memory.vectors.index import Condition
from memory.vectors.project import index_follower
from poimen.contracts.memory_calls import HealthReport, TierCondition
from poimen.contracts.problems import counted

SQL = load_queries(__package__, "health.sql")
DEADLINE_SECONDS: Final = 0.8
LONGEST_LAG_SECONDS: Final = 30.0
NAMED_PROBLEMS: Final = 3


async def health(tenant: str, stores: Stores) -> HealthReport:
    """Ask every tier at once; one that does not answer is down, and says so."""
    conditions = await asyncio.gather(
        _condition("signatures", lambda: _signatures(tenant, stores)),
        _condition("vectors", lambda: _vectors(tenant, stores)),
        _condition("vault", lambda: _vault(tenant, stores)),
    )
    return HealthReport(tiers=tuple(conditions))


async def _condition(tier: str, ask: Callable[[], Awaitable[Condition]]) -> TierCondition:
    began = time.monotonic()
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            found = await ask()
    except TimeoutError:
        found = Condition("down", f"no answer within {DEADLINE_SECONDS:g} s")
    except StoreUnavailable as error:
        found = Condition("down", f"{error} Steps go on without it, and records are kept until it is back.")
    except (PoimenError, OSError) as error:
        found = Condition("down", str(error) if isinstance(error, PoimenError) else "cannot be read")
    return TierCondition(
        tier=tier,
        health=found.health,
        detail=found.detail,
        elapsed_ms=round((time.monotonic() - began) * 1000),
        lag_seconds=found.lag_seconds,
    )


async def _signatures(tenant: str, stores: Stores) -> Condition:
    async with tenant_transaction(stores.pool, tenant, deadline_seconds=DEADLINE_SECONDS) as tx:
        row = await tx.row(SQL["newest_event"])
    if row is None:
        return Condition("ok", "Postgres answers; nothing is on record yet", 0.0)
    return Condition("ok", "Postgres answers", 0.0)


async def _vectors(tenant: str, stores: Stores) -> Condition:
    condition, lag = await asyncio.gather(
        stores.index.health(tenant, deadline_seconds=DEADLINE_SECONDS),
        index_follower(stores, tenant, FollowerSettings(deadline_seconds=DEADLINE_SECONDS)).lag(),
    )
    said = [condition.detail]
    if lag.seconds > LONGEST_LAG_SECONDS:
        said.append(f"{counted(lag.events, 'event')} behind: is a memory worker running?")
    if lag.parked:
        said.append(
            f"{counted(lag.parked, 'event')} parked, for the index did not take what they changed: poimen verify"
        )
    health = "degraded" if len(said) > 1 and condition.health == "ok" else condition.health
    return Condition(health, "; ".join(said), round(lag.seconds, 3))


async def _vault(tenant: str, stores: Stores) -> Condition:
    shelf = await stores.notes.read(tenant)
    read = f"{counted(len(shelf.notes), 'note')} read"
    if not shelf.problems:
        return Condition("ok", read)
    named = [str(problem) for problem in shelf.problems[:NAMED_PROBLEMS]]
    left = len(shelf.problems) - NAMED_PROBLEMS
    if left > 0:
        named.append(f"and {left:,} more")
    return Condition("degraded", f"{read}, {len(shelf.problems):,} not: {'; '.join(named)}")
