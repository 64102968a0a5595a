"""Sign again what an earlier version of the rules signed, and let the old keys stand for the new ones."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from memory.aliases import SQL as ALIASES_SQL
from memory.aliases import put_alias
from memory.aside import aside
from memory.errors import Rejected
from memory.journal import Event, EventKind, Origin, Provenance, RecordedEvent
from memory.journal.read import DROPPED, events_at
from memory.postgres import Row, Transaction, load_queries, tenant_transaction
from memory.signatures import Signature, version_of
from memory.signatures.versions import RULES, Rules
from memory.stores import Stores

SQL = load_queries(__package__, "resign.sql")
BATCH: Final = 100
DEADLINE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Place:
    """How far the signatures of a tenant were looked through: the last scope and signature."""

    scope: str = ""
    signature: str = ""


async def resign(stores: Stores, tenant: str, after: Place, rules: Mapping[str, Rules] = RULES) -> Place | None:
    """Sign the next signatures of earlier versions again and return the place to go on from, None at the end.

    `rules` has the current version first. Done again, or by two workers at once, it changes nothing more. A key that
    stands for another already keeps doing so, and so does its successor; an alias that a person undid stays undone.
    """
    version = next(iter(rules))
    asked = {"scope": after.scope, "signature": after.signature, "version": version, "limit": BATCH}
    async with tenant_transaction(stores.pool, tenant, deadline_seconds=DEADLINE_SECONDS) as tx:
        rows = await tx.rows(SQL["signed_before"], **asked)
        events = {event.position: event for event in await events_at(tx, [row["first_position"] for row in rows])}
    for row in rows:
        signature = await _signed_again(row, events.get(row["first_position"]), rules)
        if signature is not None:
            async with tenant_transaction(stores.pool, tenant, deadline_seconds=DEADLINE_SECONDS) as tx:
                await _follow(tx, row, signature)
    return Place(rows[-1]["scope"], rows[-1]["signature"]) if len(rows) == BATCH else None


async def _signed_again(row: Row, event: RecordedEvent | None, rules: Mapping[str, Rules]) -> Signature | None:
    """Return the current signature of the text that made a row, None where neither text nor sample can give it."""
    current = next(iter(rules.values()))
    if row["kind"] == "timeout":
        # Signed by a sentence of our own, whatever the step had printed.
        return replace(current(row["sample"], "error"), kind=row["kind"], title=row["title"])
    text = event.payload.get("error", DROPPED) if event else DROPPED
    if text != DROPPED:
        return await aside(len(text), current, text, "error")
    earlier = rules.get(version_of(row["signature"]))
    # A key may hold what other lines than the sample's added to it.
    if earlier is None or earlier(row["sample"], "error").key != row["signature"]:
        return None
    return current(row["sample"], "error")


async def _follow(tx: Transaction, row: Row, signature: Signature) -> None:
    scope, old, new = row["scope"], row["signature"], signature.key
    await tx.rows(ALIASES_SQL["lock_aliases"], scope=scope)
    taken = await tx.row(ALIASES_SQL["alias_in_force"], scope=scope, signature=old)
    alias = {"signature": old, "stands_for": new} if taken is None else _beside(new, taken)
    tx.defer(
        SQL["put_signed"],
        scope=scope,
        key=new,
        kind=signature.kind,
        family=signature.family,
        title=signature.title,
        template=signature.template,
        sample=signature.sample,
        weak=signature.weak,
        first_position=row["first_position"],
        first_run=row["first_run"],
        first_at=row["first_at"],
    )
    if alias["signature"] == alias["stands_for"]:
        return
    event = Event(
        tenant=tx.tenant,
        scope=scope,
        kind=EventKind.SIGNATURE_ALIASED,
        provenance=Provenance(key=f"resign:{scope}:{old}:{new}", origin=Origin.MAINTENANCE),
        payload={**alias, "reason": f"{version_of(old)} became {version_of(new)}"},
    )
    try:
        await put_alias(tx, event)
    except Rejected:
        # Another row of the earlier version has settled what the new key stands for.
        return


def _beside(new: str, taken: Row) -> dict[str, str]:
    """Return the alias that puts a new key where a person put the old one."""
    return {"signature": new, "stands_for": taken["stands_for"]}
