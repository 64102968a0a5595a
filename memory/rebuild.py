"""Build a generation of the index beside the live one, from what is on record, and compare it before it is used."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from memory.errors import SchemaMismatch
from memory.postgres import tenant_transaction
from memory.stores import Stores
from memory.vectors.documents import (
    Change,
    changes_from_now,
    documents_after,
    documents_changed_after,
)
from memory.vectors.index import Document, Generation

PAGE: Final = 128
READ_SECONDS: Final = 10.0
PUT_SECONDS: Final = 30.0
TRIES: Final = 3
Key = tuple[str, str]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one page came to: where the next begins (None behind the last), items read, and ids that would not go in."""

    after: Key | None
    items: int
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangedStretch:
    """The same of a page of changes."""

    after: Change | None
    items: int
    failed: tuple[str, ...] = ()


async def begin_generation(stores: Stores, tenant: str) -> tuple[Generation, Change]:
    """Begin a generation of the embedder in use, and note from where on changes must be brought to it."""
    generation = await stores.index.begin(tenant, deadline_seconds=PUT_SECONDS)
    return generation, await changes_begin(stores, tenant)


async def copy_page(stores: Stores, tenant: str, after: Key | None, limit: int = PAGE) -> Stretch:
    """Put the next items, in order of (scope, id), into all generations that take writes; again it changes nothing."""
    async with tenant_transaction(stores.pool, tenant, deadline_seconds=READ_SECONDS) as tx:
        documents = await documents_after(tx, after, limit)
    failed = await put_all(stores, documents)
    last = documents[-1] if len(documents) == limit else None
    return Stretch((last.scope, last.id) if last else None, len(documents), tuple(failed))


async def changes_begin(stores: Stores, tenant: str) -> Change:
    """Return the place from which on changes must be brought the next time, when those until now are brought first."""
    async with tenant_transaction(stores.pool, tenant, deadline_seconds=READ_SECONDS) as tx:
        return await changes_from_now(tx)


async def copy_changes(stores: Stores, tenant: str, after: Change, limit: int = PAGE) -> ChangedStretch:
    """Put the next items in the order of their last change, as `copy_page` does; whoever writes is not waited for."""
    async with tenant_transaction(stores.pool, tenant, deadline_seconds=READ_SECONDS) as tx:
        changed = await documents_changed_after(tx, after, limit)
    failed = await put_all(stores, [document for _, document in changed])
    return ChangedStretch(changed[-1][0] if len(changed) == limit else None, len(changed), tuple(failed))


async def put_all(stores: Stores, documents: Sequence[Document]) -> dict[str, str]:
    """Put documents of one tenant, some times what fails by itself; return the ids that still fail, and why."""
    left, failed = list(documents), dict[str, str]()
    for _ in range(TRIES):
        if not left:
            return {}
        outcomes = await stores.index.put(left, deadline_seconds=PUT_SECONDS)
        failed = {put.id: put.because or "failed" for put in outcomes if put.outcome == "failed"}
        left = [document for document in left if document.id in failed]
    for item, because in failed.items():
        _log.warning("An item does not go into the index.", item=item, error=because)
    return failed


async def ensure_generation(stores: Stores, tenant: str) -> None:
    """Return when the tenant has a live generation, built here from what is on record if it had none.

    For whoever holds the follower's lease. What another one left half built is gone on with.
    """
    known = await stores.index.generations(tenant, deadline_seconds=READ_SECONDS)
    if any(generation.state == "live" for generation in known):
        return
    own = (one for one in known if one.state == "building" and stores.made(one))
    building = next(own, None) or await stores.index.begin(tenant, deadline_seconds=PUT_SECONDS)
    after = None
    failed = 0
    while True:
        stretch = await copy_page(stores, tenant, after)
        failed += len(stretch.failed)
        after = stretch.after
        if after is None:
            break
    if failed:
        _log.error("Items do not go into the index; poimen verify names them.", tenant=tenant, items=failed)
    await stores.index.promote(tenant, building.number, deadline_seconds=PUT_SECONDS)


async def check_embedder(stores: Stores, *, deadline_seconds: float = READ_SECONDS) -> None:
    """Return when searches may read every tenant's live generation with the embedder in use, or build the first.

    Raises SchemaMismatch when one was made by another embedder: its vectors are of another space.
    """
    for tenant in stores.settings.tenants:
        known = await stores.index.generations(tenant, deadline_seconds=deadline_seconds)
        live = next((generation for generation in known if generation.state == "live"), None)
        if live is not None and not stores.made(live):
            raise SchemaMismatch(_made_by_another(tenant, live, stores))


def _made_by_another(tenant: str, live: Generation, stores: Stores) -> str:
    made, own, setting = live.embedder or "words alone", stores.embedder_name or "words alone", "POIMEN_EMBEDDER"
    if made == own and stores.embedder is not None:
        made = f"{made} in {live.dimension} dimensions"
        own, setting = f"{stores.embedder.dimension} dimensions", "POIMEN_EMBEDDING_DIMENSION"
    return (
        f"The index of {tenant} was made by {made}, and this worker is set to search by {own}. "
        f"Run poimen rebuild --index, or set {setting} back."
    )
