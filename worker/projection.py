"""Background tasks: make knowledge of the journal and the vault, and keep the index of it in step, for each tenant."""

import asyncio
import contextlib
from typing import Final

import structlog

from memory.errors import PoimenError, StoreUnavailable
from memory.journal import Follower
from memory.postgres import listen
from memory.producers.follow import knowledge_follower
from memory.producers.notes import NoteKeeper
from memory.stores import Stores
from memory.vectors.project import index_follower

BETWEEN_LOOKS_SECONDS: Final = 10.0

_log = structlog.get_logger(__name__)


async def warm_up(stores: Stores) -> None:
    """Load the model of this process, so that the first search by meaning is in time; it is a thread that loads it."""
    if stores.settings.embedder == "minilm" and stores.embedder is not None:
        with contextlib.suppress(StoreUnavailable):
            await stores.embedder.embed(["warm up"])


async def follow_journal(stores: Stores, stop: asyncio.Event) -> None:
    """Follow until `stop` is set. Of all workers one holds each follower's lease; outages are waited out."""
    tenants = stores.settings.tenants
    makers = [knowledge_follower(stores, tenant) for tenant in tenants]
    # Registered before anybody else trims the outbox, so that none of its events is lost to them.
    for maker in makers:
        await _registered(maker, stop)
    followers = [*makers, *(index_follower(stores, tenant) for tenant in tenants)]

    def woken() -> None:
        for follower in followers:
            follower.wake()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(listen(stores.settings.postgres_dsn, woken, stop))
        for follower in followers:
            tasks.create_task(follower.run(stop))
        for tenant in tenants:
            tasks.create_task(_keep_notes(NoteKeeper(stores, tenant), tenant, stop))


async def _registered(follower: Follower, stop: asyncio.Event) -> None:
    while not stop.is_set():
        try:
            await follower.step()
        except StoreUnavailable as error:
            await _pause(stop, error.retry_after_seconds)
        else:
            return


async def _keep_notes(keeper: NoteKeeper, tenant: str, stop: asyncio.Event) -> None:
    """Bring the vault's notes into the index, again and again until `stop` is set."""
    while not stop.is_set():
        try:
            await keeper.keep()
        except PoimenError as error:
            _log.warning("Notes were not read into the index; they are tried again.", tenant=tenant, error=str(error))
        await _pause(stop, BETWEEN_LOOKS_SECONDS)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
