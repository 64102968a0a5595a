"""The activities of ProjectJournal: each does a stretch of a rebuild, tells how far it is, and may be begun again."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any, Final, TypeVar

from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from activities.boundary import Activity, told_errors
from memory.compare import Compared, compare_page
from memory.errors import NotFound
from memory.rebuild import begin_generation, changes_begin, copy_changes, copy_page
from memory.stores import Stores
from memory.vectors.documents import LONGEST_TRANSACTION, Change
from memory.vectors.index import Document
from poimen.contracts.message import Message, decode, encode
from poimen.contracts.rebuild import (
    MOST_FAILED,
    BeginGeneration,
    ChangeKey,
    ChangesCopied,
    CompareGeneration,
    CopyChanges,
    CopyItems,
    GenerationBegun,
    GenerationCompared,
    ItemKey,
    ItemsCopied,
    Promoted,
    PromoteGeneration,
)
from poimen.entry import EMPTY, one_argument, read_input

SECONDS: Final = 10.0
# One activity copies for this long, or this many items: the workflow's page moves on with each.
STRETCH_SECONDS: Final = 20.0
STRETCH_ITEMS: Final = 5_000
BEAT_SECONDS: Final = 5.0
MOST_NAMED: Final = 20
# With a fault of this program; an outage may take any number of them.
MOST_ATTEMPTS: Final = 5

M = TypeVar("M", bound=Message)


class RebuildActivities:
    """What ProjectJournal asks of one set of stores."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def all(self) -> list[Activity]:
        """Give the activities, ready to be registered."""
        return [
            _entry_point(BeginGeneration, self.begin),
            _entry_point(CopyItems, self.copy),
            _entry_point(CopyChanges, self.copy_changes),
            _entry_point(CompareGeneration, self.compare),
            _entry_point(PromoteGeneration, self.promote),
        ]

    async def begin(self, asked: BeginGeneration) -> GenerationBegun:
        """Begin a generation; begun again it drops the first one."""
        stores = self._stores
        tenant = stores.settings.tenant_of(asked.tenant)
        generation, since = await begin_generation(stores, tenant)
        return GenerationBegun(
            tenant=tenant,
            index=stores.index.name,
            generation=generation.number,
            embedder=generation.embedder,
            since=since.at,
        )

    async def copy(self, asked: CopyItems) -> ItemsCopied:
        """Copy a stretch of the items; an attempt that was cut short goes on where its last heartbeat was."""
        tenant = await self._checked(asked.tenant, asked.generation)
        known = _told_before(ItemsCopied) or ItemsCopied(items=0, after=asked.after)
        began = time.monotonic()
        async with _beating(encode(known)) as beat:
            while True:
                after = (known.after.scope, known.after.id) if known.after else None
                page = await copy_page(self._stores, tenant, after)
                known = ItemsCopied(
                    items=known.items + page.items,
                    after=ItemKey(scope=page.after[0], id=page.after[1]) if page.after else None,
                    failed=known.failed + len(page.failed),
                    failed_ids=(*known.failed_ids, *page.failed)[:MOST_FAILED],
                )
                # Not of the last page: without a place to go on an attempt begins at the beginning.
                if known.after is None:
                    return known
                beat(encode(known))
                if known.items >= STRETCH_ITEMS or time.monotonic() - began > STRETCH_SECONDS:
                    return known

    async def copy_changes(self, asked: CopyChanges) -> ChangesCopied:
        """Copy what was changed since; an attempt that was cut short goes on where its last heartbeat was."""
        tenant = await self._checked(asked.tenant, asked.generation)
        known = _told_before(ChangesCopied)
        if known is None:
            since = (await changes_begin(self._stores, tenant)).at
            known = ChangesCopied(items=0, since=since, after=ChangeKey(at=asked.since))
        async with _beating(encode(known)) as beat:
            while known.after is not None:
                page = await copy_changes(self._stores, tenant, Change(known.after.at, known.after.id))
                known = ChangesCopied(
                    items=known.items + page.items,
                    since=known.since,
                    after=ChangeKey(at=page.after.at, id=page.after.id) if page.after else None,
                    failed=known.failed + len(page.failed),
                    failed_ids=(*known.failed_ids, *page.failed)[:MOST_FAILED],
                )
                beat(encode(known))
        return known

    async def compare(self, asked: CompareGeneration) -> GenerationCompared:
        """Compare all of the generation; an attempt that was cut short goes on where its last heartbeat was."""
        tenant = await self._checked(asked.tenant, asked.generation)
        known = _told_before(GenerationCompared) or GenerationCompared(items=0, entries=0)
        async with _beating(encode(known)) as beat:
            while True:
                after = (known.after.scope, known.after.id) if known.after else None
                page = await compare_page(self._stores, tenant, asked.generation, after)
                known = _with_page(known, page, asked)
                if known.after is None:
                    return known
                beat(encode(known))

    async def promote(self, asked: PromoteGeneration) -> Promoted:
        """Swap; asked again it changes nothing."""
        stores, tenant = self._stores, await self._checked(asked.tenant, asked.generation)
        await stores.index.promote(tenant, asked.generation, deadline_seconds=SECONDS)
        known = await stores.index.generations(tenant, deadline_seconds=SECONDS)
        kept = next((one.number for one in known if one.state == "kept"), None)
        return Promoted(generation=asked.generation, kept=kept)

    async def _checked(self, tenant: str, number: int) -> str:
        """Return the tenant when this worker can write the generation; another rebuild may have taken its place."""
        stores = self._stores
        stores.settings.tenant_of(tenant)
        known = await stores.index.generations(tenant, deadline_seconds=SECONDS)
        own = next((one for one in known if one.number == number and one.state != "kept"), None)
        if own is None:
            raise NotFound(f"Generation {number} is no longer being built: another rebuild took its place.")
        if not stores.made(own):
            raise NotFound(f"Generation {number} is of another embedder than this worker's; begin again.")
        return tenant


def _entry_point(takes: type[M], answer: Callable[[M], Awaitable[Message]]) -> Activity:
    name = takes.__name__

    @activity.defn(name=name)
    @one_argument
    async def run(raw: RawValue = EMPTY) -> dict[str, Any]:
        try:
            with told_errors(name):
                return encode(await answer(read_input(raw, takes, name).message))
        except ApplicationError as error:
            # Outages are waited out; a defect does not go away, and whoever waits for the rebuild has to hear of it.
            if error.type == "InternalError" and activity.info().attempt >= MOST_ATTEMPTS:
                raise ApplicationError(error.message, type=error.type, non_retryable=True) from None
            raise

    return run


@contextlib.asynccontextmanager
async def _beating(details: dict[str, Any] | None) -> AsyncIterator[Callable[[dict[str, Any]], None]]:
    """Send heartbeats for the length of a block, with what it last told: who follows a killed worker begins there."""
    told = [details] if details else []

    def beat(details: dict[str, Any]) -> None:
        told[:] = [details]
        activity.heartbeat(*told)

    async def keep_beating() -> None:
        while True:
            activity.heartbeat(*told)
            await asyncio.sleep(BEAT_SECONDS)

    beating = asyncio.create_task(keep_beating())
    try:
        yield beat
    finally:
        beating.cancel()
        await asyncio.wait({beating})


def _told_before(kind: type[M]) -> M | None:
    """Return what the attempt before told with its last heartbeat."""
    beaten = activity.info().heartbeat_details
    return decode(kind, beaten[0]).message if beaten else None


def _with_page(known: GenerationCompared, page: Compared, asked: CompareGeneration) -> GenerationCompared:
    """Add a page to what was compared before."""
    failed = [one.id for one, _ in page.differing if one.id in asked.failed_ids]
    # What was changed since the last catch-up began is brought by the next.
    limit = asked.since + LONGEST_TRANSACTION
    real = [one for one, item in page.differing if one.id not in asked.failed_ids and not _changed_after(item, limit)]
    told = [f"{one.scope} {one.id} {one.detail}" for one in real]
    return GenerationCompared(
        items=known.items + page.documents,
        entries=known.entries + page.entries,
        after=ItemKey(scope=page.after[0], id=page.after[1]) if page.after else None,
        differences=known.differences + len(real),
        failed_ids=(*known.failed_ids, *failed),
        told=(*known.told, *told)[:MOST_NAMED],
    )


def _changed_after(item: Document | None, instant: datetime) -> bool:
    return item is not None and item.recorded_at is not None and item.recorded_at > instant
