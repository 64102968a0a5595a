"""Background task: after an upgrade of the signature rules, sign again what was signed by earlier ones."""

import asyncio
import contextlib

import structlog

from memory.errors import StoreUnavailable
from memory.resign import Place, resign
from memory.stores import Stores

_log = structlog.get_logger(__name__)


async def resign_signatures(stores: Stores, stop: asyncio.Event) -> None:
    """Go once through the signatures of every tenant, then wait for the end; outages are waited out."""
    for tenant in stores.settings.tenants:
        place: Place | None = Place()
        while place is not None and not stop.is_set():
            try:
                place = await resign(stores, tenant, place)
            except StoreUnavailable as error:
                _log.warning("Signing again waits for the database.", error=str(error))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), error.retry_after_seconds)
    await stop.wait()
