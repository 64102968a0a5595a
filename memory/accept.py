"""Accept a candidate: what was put together by rule is delivered once a person vouches for it."""

from memory import items
from memory.errors import Rejected
from memory.ids import shown
from memory.journal import EventKind
from memory.once import once
from memory.scrub import scrub, scrub_warning
from memory.stores import Caller, Stores
from poimen.contracts.memory_calls import Accepted, AcceptKnowledge
from poimen.contracts.message import encode


async def accept(call: AcceptKnowledge, caller: Caller, stores: Stores) -> Accepted:
    """Deliver an item that waits in quarantine from now on, as reviewed.

    Raises NotFound, Conflict when a short id fits more than one item, Rejected for one that does not wait.
    """
    masked, found = await scrub(call, stores.masker)
    async with once(EventKind.KNOWLEDGE_UPDATED, masked, Accepted, caller, stores) as (tx, record, stored):
        if stored is not None:
            return stored
        item = (await items.find_item(tx, call.id, call.scope))["id"]
        before = await tx.row(items.SQL["lock_item"], id=item)
        assert before is not None
        if before["state"] != "quarantined":
            raise Rejected(f"{shown(item)} is {before['state']}: it does not wait to be accepted.")
        row = await tx.row(items.SQL["accept_item"], id=item, position=record.position, recorded_at=record.recorded_at)
        assert row is not None
        accepted = Accepted(id=shown(item), revision=row["revision"], warnings=scrub_warning(found))
        record.finish({"answer": encode(accepted), "items": [item]})
    return accepted
