"""Keep what was delivered to one attempt, so that an outcome can name it."""

from dataclasses import dataclass, replace
from typing import Final

from memory.errors import PoimenError
from memory.journal import EventKind, describe, record
from memory.journal.event import run_of
from memory.postgres import Transaction, jsonb, load_queries, tenant_transaction
from memory.step_knowledge import Prevented
from memory.stores import Caller, Stores
from poimen.contracts.memory_calls import ContextPackage, GetContext
from poimen.contracts.message import encode

SQL = load_queries(__package__, "recall.sql")
# With less than this left the store is not asked: the answer must not be late for the sake of its receipt.
LEAST_SECONDS: Final = 0.005


@dataclass(frozen=True, slots=True)
class Receipt:
    """A package, the whole ids of what is in it, and the prevention that was decided, held out or not."""

    call: GetContext
    package: ContextPackage
    item_ids: tuple[str, ...]
    decided: Prevented | None


async def keep_receipt(receipt: Receipt, caller: Caller, stores: Stores, seconds: float) -> ContextPackage:
    """Store the receipt within the seconds left; a lost one becomes a warning of the package.

    A prevention, or one that is left out, changes what happens next: it is journalled, and names its event.
    """
    package = receipt.package
    if seconds < LEAST_SECONDS:
        return _lost(package)
    try:
        # A receipt alone is not waited for until it is on disk: one that a crash undoes is one that counts for nothing.
        durable = receipt.decided is not None
        async with tenant_transaction(stores.pool, caller.tenant, deadline_seconds=seconds, durable=durable) as tx:
            policy, position = await _decision(tx, receipt, caller)
            _put(tx, receipt, caller, position)
    except PoimenError:
        return _lost(package)
    return package.model_copy(update={"policy_decision_id": policy})


def _lost(package: ContextPackage) -> ContextPackage:
    warnings = (*package.warnings, "the receipt was not stored in time: what this package does is not counted")
    return package.model_copy(update={"warnings": warnings})


async def _decision(tx: Transaction, receipt: Receipt, caller: Caller) -> tuple[str | None, int | None]:
    if receipt.decided is None:
        return None, None
    payload = {
        "package_id": receipt.package.package_id,
        "prevention": encode(receipt.decided.prevention),
        "held_out": receipt.decided.held_out,
    }
    # A read is made anew each time, so each package is an event of its own.
    provenance = replace(caller.provenance, key=f"{caller.provenance.key}:{receipt.package.package_id}")
    event = describe(EventKind.CONTEXT_DELIVERED, receipt.call, payload, tenant=caller.tenant, provenance=provenance)
    recorded = await record(tx, event)
    return f"pol-{recorded.id}", recorded.position


def _put(tx: Transaction, receipt: Receipt, caller: Caller, position: int | None) -> None:
    call, package = receipt.call, receipt.package
    tx.defer(
        SQL["put_receipt"],
        package_id=package.package_id,
        scope=call.scope,
        run=run_of(call, caller.provenance),
        branch=call.branch,
        step=call.step,
        visit=call.visit,
        attempt=call.attempt,
        item_ids=list(receipt.item_ids),
        prevention=encode(package.prevention) if package.prevention else None,
        empty_reason=package.empty_reason,
        tiers=jsonb([encode(report) for report in package.tiers]),
        position=position,
    )
