"""The activities of ProjectJournal: each does a stretch of a rebuild, tells how far it is, and may be begun again."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any, Final, TypeVar

from temporalio import activity
from temporalio.common import RawValue

from activities.boundary import Activity, told_errors
from memory.compare import compare_page
from memory.errors import NotFound
from memory.rebuild import begin_generation, copy_changes, copy_page
from memory.stores import Stores
from memory.vectors.documents import LONGEST_TRANSACTION, Change
from memory.vectors.index import Document
from poimen.contracts.message import Message, decode, encode
from poimen.contracts.rebuild import (
    BeginGeneration,
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
        beaten = activity.info().heartbeat_details
        known = decode(ItemsCopied, beaten[0]).message if beaten else ItemsCopied(items=0, after=asked.after)
        began = time.monotonic()
        async with _beating(encode(known)) as beat:
            while True:
                after = (known.after.scope, known.after.id) if known.after else None
                page = await copy_page(self._stores, tenant, after)
                known = ItemsCopied(
                    items=known.items + page.items,
                    after=ItemKey(scope=page.after[0], id=page.after[1]) if page.after else None,
                    failed=known.failed + len(page.failed),
                    failed_ids=(*known.failed_ids, *page.failed)[:MOST_NAMED],
                )
                beat(encode(known))
                if page.after is None or known.items >= STRETCH_ITEMS or time.monotonic() - began > STRETCH_SECONDS:
                    return known

    async def copy_changes(self, asked: CopyChanges) -> ChangesCopied:
        """Copy what was changed since."""
        tenant = await self._checked(asked.tenant, asked.generation)
        async with _beating(None):
            since, items = await copy_changes(self._stores, tenant, Change(asked.since))
        return ChangesCopied(items=items, since=since.at)

    async def compare(self, asked: CompareGeneration) -> GenerationCompared:
        """Compare all of the generation."""
        tenant = await self._checked(asked.tenant, asked.generation)
        documents = entries = differences = 0
        told: list[str] = []
        async with _beating(None):
            after = None
            while True:
                page = await compare_page(self._stores, tenant, asked.generation, after)
                documents, entries = documents + page.documents, entries + page.entries
                # What was changed since the last catch-up began is brought by the next.
                real = [
                    one for one, item in page.differing if not _changed_after(item, asked.since + LONGEST_TRANSACTION)
                ]
                differences += len(real)
                told += [f"{one.scope} {one.id} {one.detail}" for one in real[: MOST_NAMED - len(told)]]
                after = page.after
                if after is None:
                    return GenerationCompared(
                        items=documents, entries=entries, differences=differences, told=tuple(told)
                    )

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
        if own.embedder != stores.embedder_name:
            raise NotFound(f"Generation {number} is of another embedder than this worker's; begin again.")
        return tenant


def _entry_point(takes: type[M], answer: Callable[[M], Awaitable[Message]]) -> Activity:
    name = takes.__name__

    @activity.defn(name=name)
    @one_argument
    async def run(raw: RawValue = EMPTY) -> dict[str, Any]:
        with told_errors(name):
            return encode(await answer(read_input(raw, takes, name).message))

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


def _changed_after(item: Document | None, instant: datetime) -> bool:
    return item is not None and item.recorded_at is not None and item.recorded_at > instant
