"""Make knowledge of what the journal tells: what a follower of it hands its events to."""

from collections.abc import Sequence
from typing import Final

from memory.journal import EventKind, Follower, RecordedEvent
from memory.journal.follow import FollowerSettings
from memory.postgres import tenant_transaction
from memory.producers.artifacts import keep_code_patterns
from memory.producers.failures import keep_failure_patterns, withdraw_failure_patterns
from memory.producers.runs import keep_summary
from memory.stores import Stores

FOLLOWER: Final = "knowledge"
SECONDS: Final = 10.0


def knowledge_follower(stores: Stores, tenant: str, settings: FollowerSettings | None = None) -> Follower:
    """Give the follower that makes a tenant's summaries and patterns; again it changes nothing."""

    async def apply(events: Sequence[RecordedEvent]) -> None:
        for event in events:
            await make_knowledge(stores, event)

    return Follower(stores.pool, tenant, FOLLOWER, apply, settings)


async def make_knowledge(stores: Stores, event: RecordedEvent) -> None:
    """Make, or bring up to date, what follows from one event, each item in a transaction of its own."""
    if event.kind == EventKind.DECISION_DOCUMENTED and event.payload.get("kind") == "run_final" and event.run:
        async with tenant_transaction(stores.pool, event.tenant, deadline_seconds=SECONDS) as tx:
            await keep_summary(tx, event.scope, event.run)
        if event.payload.get("end") == "succeeded":
            async with tenant_transaction(stores.pool, event.tenant, deadline_seconds=SECONDS) as tx:
                await keep_code_patterns(tx, event.scope, event.run)
    elif event.kind == EventKind.EXECUTION_LEARNED:
        async with tenant_transaction(stores.pool, event.tenant, deadline_seconds=SECONDS) as tx:
            await keep_failure_patterns(tx, event)
    elif event.kind == EventKind.KNOWLEDGE_RETIRED:
        async with tenant_transaction(stores.pool, event.tenant, deadline_seconds=SECONDS) as tx:
            await withdraw_failure_patterns(tx, event)
