"""Aliases: let a signature stand for another, so that what is known of both is known of one failure.

Rows and no new keys: nothing that was recorded changes, and an alias that is undone leaves everything as it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from memory.errors import Conflict, NotFound, Rejected
from memory.journal import Entry, Event, EventKind, entry
from memory.postgres import Row, Transaction, load_queries, tenant_transaction
from memory.stores import Caller, Stores

SQL = load_queries(__package__, "aliases.sql")
LONGEST_REASON: Final = 500
_FEWEST_CHARACTERS: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasRequest:
    """Two signatures as a person names them: whole, or by their beginnings; None is any scope that has them."""

    signature: str
    stands_for: str
    scope: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """A signature that stands for another; `root` is where the chain of aliases ends."""

    scope: str
    signature: str
    stands_for: str
    root: str
    reason: str
    principal: str | None
    made_at: datetime


async def alias(request: AliasRequest, caller: Caller, stores: Stores) -> Alias:
    """Let a signature stand for another from now on.

    Raises NotFound for a signature that is not on record, Conflict for a beginning that fits several, and Rejected
    when the signature stands for something already or the two would stand for each other.
    """
    async with tenant_transaction(stores.pool, caller.tenant, deadline_seconds=caller.deadline_seconds) as tx:
        known = await find_signature(tx, request.signature, request.scope)
        target = await find_signature(tx, request.stands_for, known["scope"])
        payload = {
            "signature": known["signature"],
            "stands_for": target["signature"],
            "reason": stores.masker.mask(request.reason).text[:LONGEST_REASON],
        }
        return await put_alias(tx, _event(EventKind.SIGNATURE_ALIASED, known["scope"], payload, caller))


async def unalias(signature: str, scope: str | None, caller: Caller, stores: Stores) -> Alias:
    """Let a signature stand for itself again, and return the alias that ended. Raises NotFound when there is none."""
    async with tenant_transaction(stores.pool, caller.tenant, deadline_seconds=caller.deadline_seconds) as tx:
        known = await find_signature(tx, signature, scope)
        where = {"scope": known["scope"], "signature": known["signature"]}
        await tx.rows(SQL["lock_aliases"], scope=known["scope"])
        row = await tx.row(SQL["alias_in_force"], **where)
        if row is None:
            raise NotFound(f"{known['signature']} stands for nothing else in {known['scope']}.")
        payload = {"signature": row["signature"], "stands_for": row["stands_for"]}
        event = _event(EventKind.SIGNATURE_UNALIASED, known["scope"], payload, caller)
        async with entry(tx, event) as record:
            if record.stored is None:
                stamp = {"position": record.position, "recorded_at": record.recorded_at}
                await tx.run(SQL["end_alias"], **where, **stamp)
                await tx.run(SQL["lead_back"], **where)
                record.finish({"signature": row["signature"]})
    return _alias(row)


async def aliases(stores: Stores, tenant: str, scope: str | None, *, limit: int = 1_000) -> list[Alias]:
    """Return the aliases in force, the latest first."""
    async with tenant_transaction(stores.pool, tenant, deadline_seconds=stores.settings.call_deadline_seconds) as tx:
        return [_alias(row) for row in await tx.rows(SQL["aliases_in_force"], scope=scope, limit=limit)]


async def put_alias(tx: Transaction, event: Event) -> Alias:
    """Record the event SIGNATURE_ALIASED and what follows from it; a repeated event changes nothing."""
    scope, signature, stands_for = event.scope, event.payload["signature"], event.payload["stands_for"]
    await tx.rows(SQL["lock_aliases"], scope=scope)
    async with entry(tx, event) as record:
        if record.stored is None:
            root = await _root(tx, scope, signature, stands_for)
            await _write(tx, event, record, root)
            record.finish({"signature": signature, "root": root})
        result = record.stored.result if record.stored else {"root": root}
    return Alias(
        scope=scope,
        signature=signature,
        stands_for=stands_for,
        root=result["root"],
        reason=event.payload["reason"],
        principal=event.provenance.principal,
        made_at=record.recorded_at,
    )


async def find_signature(tx: Transaction, beginning: str, scope: str | None) -> Row:
    """Return the scope, signature and title of the one signature on record that begins so.

    Raises NotFound, and Conflict when several do.
    """
    if len(beginning) < _FEWEST_CHARACTERS or ":" not in beginning or not beginning.isprintable():
        raise NotFound("A signature looks like s1:4be19a02…; give at least 4 characters behind the colon.")
    rows = await tx.rows(SQL["signatures_like"], beginning=beginning, scope=scope)
    where = f" in {scope}" if scope else ""
    if not rows:
        raise NotFound(f"{beginning} is not on record{where}.")
    if len({row["signature"] for row in rows}) > 1:
        raise Conflict(f"{beginning} fits more than one signature{where}; give more of it.")
    if len(rows) > 1:
        scopes = ", ".join(sorted(row["scope"] for row in rows))
        raise Conflict(f"{beginning} is on record in more than one scope; name one of them: {scopes}.")
    return rows[0]


async def _root(tx: Transaction, scope: str, signature: str, stands_for: str) -> str:
    """Return where the chain behind an alias ends, or refuse the alias."""
    if signature == stands_for:
        raise Rejected(f"{signature} stands for itself already.")
    taken = await tx.row(SQL["alias_in_force"], scope=scope, signature=signature)
    if taken is not None:
        raise Rejected(f"{signature} stands for {taken['stands_for']} already; undo that first.")
    onward = await tx.row(SQL["alias_in_force"], scope=scope, signature=stands_for)
    root: str = onward["root"] if onward else stands_for
    if root == signature:
        raise Rejected(f"{stands_for} stands for {signature} already; the two would go round in a circle.")
    return root


async def _write(tx: Transaction, event: Event, record: Entry, root: str) -> None:
    where = {"scope": event.scope, "signature": event.payload["signature"], "root": root}
    await tx.run(
        SQL["put_alias"],
        **where,
        stands_for=event.payload["stands_for"],
        reason=event.payload["reason"],
        principal=event.provenance.principal,
        origin=event.provenance.origin.value,
        position=record.position,
        recorded_at=record.recorded_at,
    )
    await tx.run(SQL["lead_on"], **where)


def _event(kind: EventKind, scope: str, payload: Mapping[str, Any], caller: Caller) -> Event:
    return Event(tenant=caller.tenant, scope=scope, kind=kind, provenance=caller.provenance, payload=payload)


def _alias(row: Row) -> Alias:
    return Alias(
        scope=row["scope"],
        signature=row["signature"],
        stands_for=row["stands_for"],
        root=row["root"],
        reason=row["reason"],
        principal=row["principal"],
        made_at=row["made_at"],
    )
