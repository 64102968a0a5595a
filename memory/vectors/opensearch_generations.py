"""Which indices a tenant has in OpenSearch: made, swapped by alias, dropped."""

import time
from typing import Any, Final

from memory.errors import NotFound, StoreUnavailable
from memory.vectors.index import Generation
from memory.vectors.opensearch_cluster import AlreadyThere, Cluster, IndexGone, RequestRefused, reading
from memory.vectors.opensearch_mapping import (
    TEMPLATE,
    TEMPLATE_BODY,
    StoredGeneration,
    alias_of,
    index_body,
    index_of,
    read_generations,
)

# A search may read what was live this long ago: the former index is still there.
KNOWN_SECONDS: Final = 1.0
_TRIES: Final = 3
_TOLD_OF: Final = "*.aliases,*.mappings._meta"


class Generations:
    """The generations of every tenant; one that was made has the embedder's name and dimension."""

    def __init__(self, cluster: Cluster, embedder: str, dimension: int, replicas: int) -> None:
        self._cluster = cluster
        self._embedder = embedder
        self._dimension = dimension
        self._replicas = replicas
        self._known: dict[str, tuple[float, tuple[StoredGeneration, ...]]] = {}

    async def read(self, tenant: str, *, ends_at: float) -> tuple[StoredGeneration, ...]:
        """Give the tenant's generations, newest first, as they are now."""
        answer = await self._cluster.ask("GET", f"/{alias_of(tenant)}-*", ends_at=ends_at, filter_path=_TOLD_OF)
        with reading():
            stored = read_generations(answer, tenant)
        self._known[tenant] = (time.monotonic(), stored)
        return stored

    async def live(self, tenant: str, *, ends_at: float) -> StoredGeneration | None:
        """Give the live generation, as it was a second ago at most."""
        read_at, stored = self._known.get(tenant, (0.0, ()))
        if not stored or time.monotonic() - read_at > KNOWN_SECONDS:
            stored = await self.read(tenant, ends_at=ends_at)
        return next((one for one in stored if one.generation.state == "live"), None)

    def forget(self, tenant: str) -> None:
        """Have the tenant's generations read again."""
        self._known.pop(tenant, None)

    async def writable(self, tenant: str, *, ends_at: float) -> tuple[StoredGeneration, ...]:
        """Give the generations that take what this embedder makes.

        Raises StoreUnavailable when there is none: one that were made here would lack all that was put before.
        """
        writable = [one for one in await self.read(tenant, ends_at=ends_at) if one.takes_writes]
        if not writable:
            raise StoreUnavailable("The tenant has no index yet, or it is gone; it is made of what is on record.")
        own = tuple(one for one in writable if self.is_own(one))
        if not own:
            made = self._embedder or "no embedder"
            raise StoreUnavailable(
                f"The index has vectors of another embedder than {made}; run poimen rebuild --index."
            )
        return own

    def is_own(self, stored: StoredGeneration) -> bool:
        """Say whether its vectors are of this embedder, or neither has any."""
        made = stored.generation
        return (made.embedder, made.dimension) == (self._embedder, self._dimension)

    async def begin(self, tenant: str, *, ends_at: float) -> Generation:
        """Make an empty one to be filled; those that were being filled before are dropped."""
        for _ in range(_TRIES):
            stored = await self.read(tenant, ends_at=ends_at)
            number = 1 + max((one.generation.number for one in stored), default=0)
            fresh = Generation(number, "building", self._embedder, self._dimension)
            if await self._make(tenant, fresh, ends_at):
                break
        else:
            raise StoreUnavailable("Others make generations of the index at the same time.")
        # Read again, because another may have promoted one of them meanwhile.
        for one in await self.read(tenant, ends_at=ends_at):
            if one.generation.state == "building" and one.generation.number < number:
                await self._drop(one, ends_at)
        self.forget(tenant)
        return fresh

    async def promote(self, tenant: str, number: int, *, ends_at: float) -> None:
        """Make one live at once and keep the former; what was kept before is dropped. Raises NotFound."""
        stored = await self.read(tenant, ends_at=ends_at)
        chosen = next((one for one in stored if one.generation.number == number), None)
        if chosen is None or chosen.generation.state == "kept":
            raise NotFound(f"Generation {number} of the index is neither being built nor live.")
        if chosen.generation.state == "live":
            return
        # What was written last must be found from the first search on.
        await self._cluster.ask("POST", f"/{chosen.index}/_refresh", ends_at=ends_at)
        actions: list[dict[str, Any]] = [{"add": {"index": chosen.index, "alias": alias_of(tenant)}}]
        for one in stored:
            if one.generation.state == "live":
                actions += [{"remove": {"index": one.index, "alias": name}} for name in (alias_of(tenant), one.writes)]
            elif one.generation.number < number:
                actions.append({"remove_index": {"index": one.index}})
        await self._cluster.ask("POST", "/_aliases", {"actions": actions}, ends_at=ends_at)
        self.forget(tenant)

    async def drop_all(self, tenant: str, *, ends_at: float) -> None:
        """Drop every generation of a tenant."""
        for one in await self.read(tenant, ends_at=ends_at):
            await self._drop(one, ends_at)
        self.forget(tenant)

    async def _make(self, tenant: str, generation: Generation, ends_at: float) -> bool:
        """Make the index of a generation; return False when there is one of its number."""
        body = index_body(tenant, generation, replicas=self._replicas)
        try:
            await self._cluster.ask("PUT", f"/_index_template/{TEMPLATE}", TEMPLATE_BODY, ends_at=ends_at)
            await self._cluster.ask("PUT", f"/{index_of(tenant, generation.number)}", body, ends_at=ends_at)
        except AlreadyThere:
            return False
        except RequestRefused as error:
            raise StoreUnavailable(
                f"OpenSearch cannot hold the index; it needs version 3 or newer with its k-NN plugin. {error}",
                retry_after_seconds=error.retry_after_seconds,
            ) from error
        return True

    async def _drop(self, stored: StoredGeneration, ends_at: float) -> None:
        try:
            await self._cluster.ask("DELETE", f"/{stored.index}", ends_at=ends_at)
        except IndexGone:
            return
