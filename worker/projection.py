"""Background task: keep the index of knowledge in step with the journal, one follower a tenant."""

import asyncio
import contextlib

from memory.errors import StoreUnavailable
from memory.postgres import listen
from memory.stores import Stores
from memory.vectors.project import index_follower


async def warm_up(stores: Stores) -> None:
    """Load the model of this process, so that the first search by meaning is in time; it is a thread that loads it."""
    if stores.settings.embedder == "minilm" and stores.embedder is not None:
        with contextlib.suppress(StoreUnavailable):
            await stores.embedder.embed(["warm up"])


async def follow_journal(stores: Stores, stop: asyncio.Event) -> None:
    """Follow until `stop` is set. Of all workers one holds each follower's lease; outages are waited out."""
    followers = [index_follower(stores, tenant) for tenant in stores.settings.tenants]

    def woken() -> None:
        for follower in followers:
            follower.wake()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(listen(stores.settings.postgres_dsn, woken, stop))
        for follower in followers:
            tasks.create_task(follower.run(stop))
