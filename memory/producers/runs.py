"""SummariseRun: what came of a run becomes an item that later runs find."""

from typing import Final

from memory import items
from memory.errors import NotFound
from memory.ids import item_id, shown
from memory.items import NewItem
from memory.journal import EventKind, Origin
from memory.journal.event import LONGEST_PART_BYTES, short_name
from memory.journal.read import events_at
from memory.limits import restored
from memory.observations import run_name
from memory.postgres import Transaction, load_queries, tenant_transaction
from memory.producers.keep import keep_item
from memory.producers.run_summary import RunTold, summary_text, summary_title
from memory.stores import Caller, Stores
from memory.why import SQL as WHY_SQL
from memory.why import UNKNOWN_RUN
from poimen.contracts.memory_calls import DocumentDecision, RunSummarised, SummariseRun

SQL = load_queries(__package__, "runs.sql")
# Read for one summary: each holds the attempts of a step, with what memory said.
MOST_READ: Final = 300
MOST_ARTIFACTS: Final = 20


async def summarise(call: SummariseRun, caller: Caller, stores: Stores) -> RunSummarised:
    """Make the summary of a run from what is on record of it now; made again it changes nothing.

    Raises NotFound when no decision of the run is on record in the scope.
    """
    async with tenant_transaction(stores.pool, caller.tenant, deadline_seconds=caller.deadline_seconds) as tx:
        run = short_name(call.run, LONGEST_PART_BYTES)
        changed = await keep_summary(tx, call.scope, run)
        if changed is None:
            named = await tx.row(WHY_SQL["runs_of_workflow"], workflow_id=call.run)
            run = named["run"] if named else run
            changed = await keep_summary(tx, call.scope, run)
        if changed is None:
            raise NotFound(UNKNOWN_RUN)
        kept = await tx.row(items.SQL["item"], id=summary_id(call.scope, run))
    assert kept is not None
    return RunSummarised(id=shown(kept["id"]), title=kept["title"], text=kept["text"], changed=changed)


def summary_id(scope: str, run: str) -> str:
    """Give the id of a run's summary."""
    return item_id("run", "summary", scope, run)


async def keep_summary(tx: Transaction, scope: str, run: str) -> bool | None:
    """Bring the summary of a run to what is on record; return whether it changed, None when nothing is on record."""
    found = await tx.rows(SQL["run_decisions"], run=run, scope=scope, limit=MOST_READ)
    if not found:
        return None
    events = await events_at(tx, [row["position"] for row in found])
    left = await tx.rows(SQL["run_artifacts"], run=run, scope=scope, limit=MOST_ARTIFACTS)
    told = RunTold(
        name=await run_name(tx, run),
        decisions=[restored(DocumentDecision, event.payload) for event in events],
        artifacts=[row["artifact"] for row in left],
    )
    item = NewItem(
        id=summary_id(scope, run),
        scope=scope,
        kind="run",
        title=summary_title(told),
        text=summary_text(told),
        origin=Origin.MAINTENANCE.value,
        # It quotes what steps wrote about themselves.
        trust="unverified",
    )
    return await keep_item(tx, item, EventKind.RUN_SUMMARISED, Origin.MAINTENANCE)
