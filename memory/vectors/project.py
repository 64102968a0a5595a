"""Keep the index in step with the journal: what a follower of it hands its events to."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from memory.errors import StoreUnavailable
from memory.journal import Follower, RecordedEvent
from memory.journal.follow import FollowerSettings
from memory.postgres import tenant_transaction
from memory.rebuild import ensure_generation
from memory.stores import Stores
from memory.vectors.documents import documents_of
from memory.vectors.index import Document

FOLLOWER: Final = "vectors"
READ_SECONDS: Final = 5.0
PUT_SECONDS: Final = 30.0
# Documents that go to the store at once: what is begun again after an outage is no more than these.
DOCUMENTS_A_PUT: Final = 64


class IndexProjection:
    """Brings the items that events made or changed into the index, as they are on record; again it changes nothing."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._ready: set[str] = set()
        # Versions stored of a batch that an outage cut short: the rest of it is what is left.
        self._stored: dict[tuple[str, str], int] = {}

    async def prepare(self, tenant: str) -> None:
        """Build the tenant's index if it has none."""
        await ensure_generation(self._stores, tenant)
        self._ready.add(tenant)

    async def apply(self, events: Sequence[RecordedEvent]) -> dict[int, str]:
        """Return the positions of events whose items could not be stored, each with what the store said."""
        because: dict[tuple[str, str], str] = {}
        for tenant, items in _items(events).items():
            if tenant not in self._ready:
                await self.prepare(tenant)
            because |= await self._put(tenant, items)
        self._stored.clear()
        named = ((event.position, because.get((event.tenant, item))) for event in events for item in _named(event))
        return {position: error for position, error in named if error is not None}

    async def _put(self, tenant: str, items: Iterable[str]) -> dict[tuple[str, str], str]:
        failed: dict[tuple[str, str], str] = {}
        left = iter(items)
        while ids := list(islice(left, DOCUMENTS_A_PUT)):
            async with tenant_transaction(self._stores.pool, tenant, deadline_seconds=READ_SECONDS) as tx:
                documents = await documents_of(tx, ids)
            todo = [one for one in documents if self._stored.get((tenant, one.id)) != one.version]
            failed |= await self._stored_or_failed(tenant, todo)
        return failed

    async def _stored_or_failed(self, tenant: str, documents: Sequence[Document]) -> dict[tuple[str, str], str]:
        if not documents:
            return {}
        try:
            outcomes = await self._stores.index.put(documents, deadline_seconds=PUT_SECONDS)
        except StoreUnavailable:
            # When the store is back, its index may be gone.
            self._ready.discard(tenant)
            raise
        failed = {(tenant, put.id): put.because or "failed" for put in outcomes if put.outcome == "failed"}
        for document in documents:
            if (tenant, document.id) not in failed:
                self._stored[tenant, document.id] = document.version
        return failed


def index_follower(stores: Stores, tenant: str, settings: FollowerSettings | None = None) -> Follower:
    """Give the follower that keeps a tenant's index in step with the journal."""
    projection = IndexProjection(stores)

    async def prepare() -> None:
        await projection.prepare(tenant)

    return Follower(stores.pool, tenant, FOLLOWER, projection.apply, settings, prepare=prepare)


def _items(events: Sequence[RecordedEvent]) -> Mapping[str, dict[str, None]]:
    """Give the items that the events name, once each, by tenant."""
    found: dict[str, dict[str, None]] = {}
    for event in events:
        for item in _named(event):
            found.setdefault(event.tenant, {})[item] = None
    return found


def _named(event: RecordedEvent) -> Sequence[str]:
    items = event.result.get("items")
    return items if isinstance(items, list) else ()
