"""Runs that are reported to a memory, and what makes knowledge of them."""

from typing import Any

from memory.document import document
from memory.journal.follow import FollowerSettings
from memory.learn import learn
from memory.postgres import Row, tenant_transaction
from memory.producers.follow import knowledge_follower
from memory.stores import Stores
from poimen.contracts.memory_calls import DocumentDecision, LearnFromExecution
from tests.memory.acted_step import PORT_TAKEN, ActedStep, caller, cured_by
from tests.projection.conftest import SCOPE, SECONDS, settings, stores

__all__ = ["settings", "stores"]


async def make_knowledge(stores: Stores, tenant: str = "local") -> None:
    """Hand what is on record to what makes knowledge of it."""
    follower = knowledge_follower(stores, tenant, FollowerSettings(deadline_seconds=SECONDS))
    while await follower.step():
        pass
    await follower._release()


async def end_run(stores: Stores, run: str, end: str = "succeeded", **values: Any) -> None:
    """Document the end of a run."""
    told = {"decision": f"{end}: all steps are through", "definition": "release-checks", "seconds": 90.0, **values}
    call = DocumentDecision(scope=SCOPE, run=run, kind="run_final", end=end, **told)
    await document(call, caller(key=f"{run}:run_final", workflow_id=run, run_id=f"id-{run}"), stores)


async def ported_run(stores: Stores, run: str, end: str = "succeeded") -> None:
    """A run whose step finds the port taken, until it is freed."""
    await ActedStep(stores).run(run, cured_by("free-port", PORT_TAKEN))
    await end_run(stores, run, end)


async def pass_step(stores: Stores, run: str, step: str, **values: Any) -> None:
    """Report a step that passed at once, and document it."""
    by = {"workflow_id": f"{run}/{step}", "run_id": f"id-{run}"}
    decision = values.pop("decision", "succeeded: verified")
    call = LearnFromExecution(scope=SCOPE, run=run, step=step, outcome="succeeded", **values)
    await learn(call, caller(key=f"{run}:{step}:learn", **by), stores)
    documented = DocumentDecision(
        scope=SCOPE,
        run=run,
        step=step,
        kind="step_completion",
        decision=decision,
        end="succeeded",
        attempts=({"attempt": 1, "outcome": "succeeded"},),
    )
    await document(documented, caller(key=f"{run}:{step}:document", **by), stores)


async def items_of(stores: Stores, kind: str) -> list[Row]:
    """Give the items of a kind, whatever their state."""
    query = "select * from items where tenant = %(tenant)s and kind = %(kind)s order by id"
    async with tenant_transaction(stores.pool, "local", deadline_seconds=SECONDS) as tx:
        return await tx.rows(query, kind=kind)


async def events_of(stores: Stores, kind: str) -> int:
    """Count the events of a kind."""
    query = "select count(*) as events from journal where tenant = %(tenant)s and kind = %(kind)s"
    async with tenant_transaction(stores.pool, "local", deadline_seconds=SECONDS) as tx:
        (row,) = await tx.rows(query, kind=kind)
    return int(row["events"])
