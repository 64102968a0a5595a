"""GetContext: gather what the three tiers know of a step under one deadline, and keep a receipt."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, TypeVar

from memory import items
from memory.aside import aside
from memory.deadline import Answer, skipped, within
from memory.errors import PoimenError
from memory.ids import package_id
from memory.items import Known
from memory.notes.match import CHARACTERS_A_NOTE, Fit, Place, fitting, is_elsewhere
from memory.observations import fingerprint
from memory.packing import Gathered, pack
from memory.postgres import tenant_transaction
from memory.receipt import Receipt, keep_receipt
from memory.recent import ask_index, with_recent
from memory.scrub import scrub, scrub_warning
from memory.step_knowledge import StepKnowledge, failure_words, prevention, read_step, step_knowledge
from memory.stores import Caller, Stores
from memory.vectors.index import Found, Query
from memory.vectors.tokens import spellings
from poimen.contracts.memory_calls import ContextPackage, GetContext
from poimen.render import render, tokens

T = TypeVar("T")
# What the receipt may take; the tiers share the rest.
RECEIPT_SHARE: Final = 0.2
LONGEST_RECEIPT_SECONDS: Final = 0.2
MOST_HITS: Final = 12
MOST_FITS: Final = 3
LONGEST_TASK: Final = 600


@dataclass(frozen=True, slots=True)
class _Recall:
    """One call while it is answered; `gather_by` is an instant of the monotonic clock."""

    call: GetContext
    caller: Caller
    stores: Stores
    gather_by: float

    async def signatures(self, seconds: float) -> StepKnowledge:
        async with tenant_transaction(self.stores.pool, self.caller.tenant, deadline_seconds=seconds) as tx:
            record = await read_step(tx, self.call, self.caller.provenance)
        # Without the connection: others may wait for it.
        return await step_knowledge(record, self.call, self.caller.provenance)

    async def words(self) -> str:
        """Give the words to search by: the task, the step and the failure at hand, if one is."""
        call = self.call
        failure = call.last_failure or await self._known_failure()
        said = (call.step, call.phase, call.task[:LONGEST_TASK], failure[-LONGEST_TASK:])
        return " ".join(part for part in said if part)

    async def _known_failure(self) -> str:
        if not self.call.last_signature:
            return ""
        seconds = self.gather_by - time.monotonic()
        try:
            async with tenant_transaction(
                self.stores.pool, self.caller.tenant, deadline_seconds=max(seconds / 2, 0.001)
            ) as tx:
                return await failure_words(tx, self.call.scope, self.call.last_signature)
        except PoimenError:
            # The task's own words still find something.
            return ""

    async def vectors(self, words: Awaitable[str]) -> tuple[Found, tuple[Known, ...]]:
        call, text = self.call, await words
        query = Query(tenant=self.caller.tenant, scope=call.scope, text=text, kinds=call.kinds, limit=MOST_HITS)
        found = await ask_index(self.stores.index, query, self._left())
        async with tenant_transaction(self.stores.pool, self.caller.tenant, deadline_seconds=self._left()) as tx:
            found = await with_recent(tx, query, found)
            if not found.hits:
                return found, ()
            rows, tried = await items.read_active(tx, call.scope, [hit.id for hit in found.hits], last=True)
        written = spellings(text)
        hits = tuple(replace(h, matched=tuple(written.get(term, term) for term in h.matched)) for h in found.hits)
        found = replace(found, hits=hits)
        # A skill is suggested by name, by the tier of notes; a note for other places is none for this step.
        rows = [row for row in rows if row["kind"] != "skill" and not is_elsewhere(row["tags"], self._place)]
        return found, tuple(await items.told_aside(rows, tried, fingerprint(self.call.environment)))

    async def vault(self, words: Awaitable[str]) -> list[Fit]:
        shelf = await self.stores.notes.read(self.caller.tenant)
        wanted = await words
        kinds = self.call.kinds
        notes = [note for note in shelf.notes if not kinds or note.kind in kinds]
        return await aside(len(notes) * CHARACTERS_A_NOTE, fitting, notes, self._place, wanted, MOST_FITS)

    @property
    def _place(self) -> Place:
        call = self.call
        return Place(call.scope, call.tool, call.phase, call.step)

    def _left(self) -> float:
        return max(self.gather_by - time.monotonic(), 0.001)

    async def gather(self) -> Gathered:
        words = asyncio.create_task(self.words())
        try:
            knowledge, found, fits = await asyncio.gather(
                self._signatures_tier(),
                self._vectors_tier(words),
                within("vault", _with(self.vault, words), len, self.gather_by),
            )
        finally:
            words.cancel()
        return Gathered(knowledge, found, fits)

    async def _vectors_tier(self, words: asyncio.Task[str]) -> Answer[tuple[Found, tuple[Known, ...]]]:
        ask = _with(self.vectors, words)
        return await within("vectors", ask, lambda v: len(v[1]), self.gather_by, status=lambda v: v[0].status)

    async def _signatures_tier(self) -> Answer[StepKnowledge]:
        if self.call.step is None:
            return skipped("signatures")
        return await within("signatures", self.signatures, lambda k: len(k.lessons), self.gather_by)


def _with(ask: Callable[[Awaitable[str]], Awaitable[T]], words: asyncio.Task[str]) -> Callable[[float], Awaitable[T]]:
    # A tier that is late must not take the words away from the others.
    return lambda _: ask(asyncio.shield(words))


async def recall(call: GetContext, caller: Caller, stores: Stores) -> ContextPackage:
    """Deliver what is known before an attempt; a tier that is late or down is reported and never fails the call."""
    began = time.monotonic()
    seconds = min(call.deadline_ms / 1000, caller.deadline_seconds)
    masked, found = await scrub(call, stores.masker)
    reserve = min(seconds * RECEIPT_SHARE, LONGEST_RECEIPT_SECONDS)
    gathered = await _Recall(masked, caller, stores, began + seconds - reserve).gather()
    known = gathered.knowledge.value
    decided = prevention(masked, known) if known else None
    packed = pack(masked, gathered)
    package = ContextPackage(
        package_id=package_id(),
        created_at=datetime.now(UTC),
        items=packed.items,
        skills=packed.skills,
        earlier_attempts=known.earlier if known else call.earlier_attempts,
        budget_left=call.budget_left,
        prevention=decided.prevention if decided and not decided.held_out else None,
        tiers=gathered.reports,
        empty_reason=packed.empty_reason,
        empty_because=packed.empty_because,
        tenant=caller.tenant,
        warnings=scrub_warning(found),
    )
    receipt = Receipt(masked, package, packed.ids, decided)
    package = await keep_receipt(receipt, caller, stores, began + seconds - time.monotonic())
    return _rendered(package) if call.render else package


def _rendered(package: ContextPackage) -> ContextPackage:
    text = render(None, package).text
    return package.model_copy(update={"text": text, "text_tokens": tokens(text)})
