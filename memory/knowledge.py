"""SearchKnowledge and RetireKnowledge: look knowledge up, and take a wrong piece of it out."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from memory import items
from memory.aside import aside
from memory.deadline import Answer, skipped, within
from memory.errors import Conflict, Rejected
from memory.ids import shown
from memory.items import Known
from memory.journal import EventKind
from memory.notes.match import CHARACTERS_A_NOTE, Fit, Place, fitting
from memory.notes.note import note_id
from memory.observations import fingerprint
from memory.once import once
from memory.packing import note_item
from memory.postgres import Row, load_queries, tenant_transaction
from memory.recent import ask_index, with_recent
from memory.scrub import scrub, scrub_warning
from memory.signatures import signatures_of
from memory.stores import Caller, Stores
from memory.vectors.index import Found, Query
from poimen.contracts.memory_calls import (
    RememberedItem,
    Retired,
    RetireKnowledge,
    SearchKnowledge,
    SearchResult,
    TierReport,
)
from poimen.contracts.message import encode
from poimen.contracts.vocabulary import EmptyReason, Tier, TierStatus

SQL = load_queries(__package__, "knowledge.sql")
T = TypeVar("T")
_SIGNATURE: Final = re.compile(r"s\d+:[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class _Search:
    call: SearchKnowledge
    caller: Caller
    stores: Stores

    async def signatures(self, seconds: float) -> list[Known]:
        """Give the lessons of the failure that the query is, or is the text of."""
        query = self.call.query.strip()
        keys = (
            [query]
            if _SIGNATURE.fullmatch(query)
            else [one.key for one in await aside(len(query), signatures_of, query)]
        )
        async with tenant_transaction(self.stores.pool, self.caller.tenant, deadline_seconds=seconds) as tx:
            rows = await tx.rows(
                SQL["lessons_of_signature"], scope=self.call.scope, signatures=keys, limit=self.call.limit
            )
            environment = fingerprint(self.call.environment)
            return await items.with_evidence(tx, self.call.scope, rows, environment)

    async def vectors(self, seconds: float) -> tuple[Found, list[tuple[Known, float]]]:
        ends_at = time.monotonic() + seconds
        query = Query(
            tenant=self.caller.tenant,
            scope=self.call.scope,
            text=self.call.query,
            kinds=self.call.kinds,
            limit=self.call.limit,
        )
        found = await ask_index(self.stores.index, query, seconds)
        left = max(ends_at - time.monotonic(), 0.001)
        async with tenant_transaction(self.stores.pool, self.caller.tenant, deadline_seconds=left) as tx:
            found = await with_recent(tx, query, found)
            if not found.hits:
                return found, []
            environment = fingerprint(self.call.environment)
            ids = [hit.id for hit in found.hits]
            known = await items.active_items(tx, self.call.scope, ids, environment, last=True)
        by_id = {one.row["id"]: one for one in known}
        return found, [(by_id[hit.id], hit.score) for hit in found.hits if hit.id in by_id]

    async def vault(self, seconds: float) -> list[Fit]:  # noqa: ARG002 - a tier's form
        shelf = await self.stores.notes.read(self.caller.tenant)
        call = self.call
        place = Place(call.scope, call.tool, call.phase, call.step)
        cost = len(shelf.notes) * CHARACTERS_A_NOTE
        return await aside(cost, fitting, shelf.notes, place, call.query, call.limit)

    async def ask(
        self,
        tier: Tier,
        ask: Callable[[float], Awaitable[T]],
        count: Callable[[T], int],
        ends_at: float,
        status: Callable[[T], TierStatus] = lambda _: "answered",
    ) -> Answer[T]:
        """Ask a tier, unless the call names others."""
        if self.call.tiers and tier not in self.call.tiers:
            return skipped(tier)
        return await within(tier, ask, count, ends_at, status=status)


async def search(call: SearchKnowledge, caller: Caller, stores: Stores) -> SearchResult:
    """Give what fits a query, best first: exact failures, then what shares its words, then notes."""
    seconds = min(call.deadline_ms / 1000, caller.deadline_seconds)
    ends_at = time.monotonic() + seconds
    masked, found = await scrub(call, stores.masker)
    asked = _Search(masked, caller, stores)
    signatures, vectors, vault = await asyncio.gather(
        asked.ask("signatures", asked.signatures, len, ends_at),
        asked.ask("vectors", asked.vectors, lambda value: len(value[1]), ends_at, lambda value: value[0].status),
        asked.ask("vault", asked.vault, len, ends_at),
    )
    ranked = _ranked(masked, signatures.value or [], vectors.value, vault.value or [])
    reports = (signatures.report, vectors.report, vault.report)
    reason, because = (None, None) if ranked else _why_nothing(reports, vectors.value)
    return SearchResult(
        items=ranked,
        empty_reason=reason,
        empty_because=because,
        tiers=reports,
        warnings=scrub_warning(found),
    )


def _ranked(
    call: SearchKnowledge,
    exact: list[Known],
    similar: tuple[Found, list[tuple[Known, float]]] | None,
    fits: list[Fit],
) -> tuple[RememberedItem, ...]:
    found = {one.row["id"]: items.remembered(one, "signatures", "same failure", 1.0) for one in exact}
    for one, score in similar[1] if similar else []:
        found.setdefault(one.row["id"], items.remembered(one, "vectors", "shares words", score))
    # Notes are scored by another measure: they follow, in their own order.
    notes = [note_item(fit.note, fit.because) for fit in fits if note_id(fit.note) not in found]
    ranked = sorted(found.values(), key=lambda item: (-(item.score or 0.0), item.id))
    kinds = set(call.kinds)
    wanted = [item for item in [*ranked, *notes] if not kinds or item.kind in kinds]
    return tuple(wanted[: call.limit])


def _why_nothing(
    reports: tuple[TierReport, ...], similar: tuple[Found, list[tuple[Known, float]]] | None
) -> tuple[EmptyReason, str]:
    silent = [report for report in reports if report.status in {"late", "down"}]
    told = f" ({', '.join(f'{report.tier} {report.status}' for report in silent)})" if silent else ""
    if similar is not None and similar[0].status == "answered" and similar[0].empty_because is not None:
        return similar[0].empty_reason or "no_evidence", f"{similar[0].empty_because}{told}"
    if silent:
        late = all(report.status == "late" for report in silent)
        return "deadline" if late else "tier_down", f"nothing could be read{told}"
    return "no_evidence", "nothing on record fits"


async def retire(call: RetireKnowledge, caller: Caller, stores: Stores) -> Retired:
    """Take an item out of what is delivered; the evidence before this no longer counts for it.

    A lesson made from outcomes comes back when its failure comes back, with what was seen since. Raises NotFound,
    Conflict when the revision is another or the short id fits more than one item, Rejected for one retired already.
    """
    masked, found = await scrub(call, stores.masker)
    async with once(EventKind.KNOWLEDGE_RETIRED, masked, Retired, caller, stores) as (tx, record, stored):
        if stored is not None:
            return stored
        item = (await items.find_item(tx, call.id, call.scope))["id"]
        _check(call, await tx.row(items.SQL["lock_item"], id=item))
        row = await tx.row(items.SQL["retire_item"], id=item, position=record.position, recorded_at=record.recorded_at)
        assert row is not None
        retired = Retired(id=shown(item), revision=row["revision"], warnings=scrub_warning(found))
        record.finish({"answer": encode(retired), "items": [item]})
    return retired


def _check(call: RetireKnowledge, row: Row | None) -> None:
    assert row is not None
    name, revision, expected = shown(row["id"]), row["revision"], call.expected_revision
    if expected is not None and expected != revision:
        raise Conflict(
            f"{name} is at revision {revision}, you sent {expected}; read it again.",
            actual_revision=revision,
        )
    if row["state"] == "retired":
        raise Rejected(f"{name} is retired already.")
