"""Tier 2 in OpenSearch: an index for each tenant, asked for words and neighbours, ranked as in every store."""

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from memory.aside import aside
from memory.errors import Rejected, StoreUnavailable
from memory.settings import OpenSearchSettings
from memory.vectors.answer import Asked, ask, found, nothing_there, nothing_to_ask
from memory.vectors.breaker import Breaker
from memory.vectors.embedder import Embedder, Vectors
from memory.vectors.index import Condition, Document, Entry, Found, Generation, Put, Query
from memory.vectors.opensearch_bulk import (
    Result,
    Write,
    batches,
    read_results,
    read_versions,
    source_of,
    text_of,
    too_large,
    versions_body,
)
from memory.vectors.opensearch_cluster import Cluster, IndexGone, RequestTooLarge, check_answer, end_of, reading
from memory.vectors.opensearch_generations import Generations
from memory.vectors.opensearch_mapping import StoredGeneration, index_of
from memory.vectors.opensearch_queries import (
    candidate_bodies,
    entries_body,
    lines,
    read_candidates,
    read_entries,
    read_statistics,
    statistics_body,
)
from memory.vectors.ranking import rank

DOCUMENTS_AT_ONCE: Final = 200
_FIRST_WAIT_SECONDS: Final = 0.1
_LONGEST_WAIT_SECONDS: Final = 2.0


class OpenSearchIndex:
    """A VectorIndex in OpenSearch; `embedder` makes its vectors, or nothing does. It connects when first asked."""

    name: Final = "opensearch"

    def __init__(self, settings: OpenSearchSettings, embedder: Embedder | None = None) -> None:
        self._embedder = embedder
        self._cluster = Cluster(settings)
        made = ("", 0) if embedder is None else (embedder.name, embedder.dimension)
        self._generations = Generations(self._cluster, *made, settings.replicas)

    @property
    def breaker(self) -> Breaker:
        """What keeps callers from waiting for a server that does not answer."""
        return self._cluster.breaker

    async def put(self, documents: Sequence[Document], *, deadline_seconds: float) -> tuple[Put, ...]:
        """Store documents of one tenant; the deadline is each request's, and embedding comes between them."""
        if len({document.tenant for document in documents}) > 1:
            raise ValueError("Documents of one tenant are put together.")
        outcomes: list[Put] = []
        for first in range(0, len(documents), DOCUMENTS_AT_ONCE):
            outcomes += await self._put_apart(documents[first : first + DOCUMENTS_AT_ONCE], deadline_seconds)
        return tuple(outcomes)

    async def search(self, query: Query, *, deadline_seconds: float) -> Found:
        """Give the active items that fit, or none with a reason; without a live generation nothing is found."""
        ends_at = end_of(deadline_seconds)
        if (because := _refused(query.tenant, query.scope)) is not None:
            raise Rejected(because)
        asked = await ask(query, self._embedder, deadline_seconds)
        if asked.empty:
            return nothing_to_ask(asked)
        try:
            return await self._found(asked, ends_at)
        except IndexGone:
            # Another generation went live and the one that was known is dropped, or it was lost.
            self._generations.forget(query.tenant)
            return await self._found(asked, ends_at)

    async def _found(self, asked: Asked, ends_at: float) -> Found:
        query = asked.query
        live = await self._generations.live(query.tenant, ends_at=ends_at)
        if live is None:
            return nothing_there(asked)
        if asked.vector is not None and not self._generations.is_own(live):
            asked = asked.by_words(_other_embedder(live))
        body = statistics_body(query, asked.terms)
        counted = await self._cluster.ask("POST", f"/{live.index}/_search", body, ends_at=ends_at)
        check_answer(counted)
        with reading():
            statistics = read_statistics(counted, asked.terms)
        if statistics.documents == 0:
            return nothing_there(asked)
        answers = await self._ask_together(live, candidate_bodies(asked, statistics), ends_at)
        with reading():
            candidates = read_candidates(answers, asked.terms)
        return found(asked, rank(asked.terms, asked.vector, candidates, statistics), statistics.documents)

    async def health(self, tenant: str, *, deadline_seconds: float) -> Condition:
        """Say whether the cluster answers, and whether meaning is compared."""
        ends_at = end_of(deadline_seconds)
        state = await self._cluster.ask("GET", "/_cluster/health", ends_at=ends_at)
        with reading():
            red = state["status"] == "red"
        stored = await self._generations.read(tenant, ends_at=ends_at)
        live = next((one for one in stored if one.generation.state == "live"), None)
        if live is not None and not self._generations.is_own(live):
            return Condition("degraded", f"search by words answers; {_other_embedder(live)}")
        if red:
            return Condition("degraded", "OpenSearch answers, but an index of it has no copy that does (red)")
        if self._embedder is None:
            return Condition("ok", "search by words answers; no embedder is set")
        return Condition("ok", f"search by words and meaning answers ({self._embedder.name})")

    async def generations(self, tenant: str, *, deadline_seconds: float) -> tuple[Generation, ...]:
        """Give the tenant's generations, newest first."""
        stored = await self._generations.read(tenant, ends_at=end_of(deadline_seconds))
        return tuple(one.generation for one in stored)

    async def begin(self, tenant: str, *, deadline_seconds: float) -> Generation:
        """Add an empty building generation, of the embedder in use; one that was being built before is dropped."""
        return await self._generations.begin(tenant, ends_at=end_of(deadline_seconds))

    async def promote(self, tenant: str, number: int, *, deadline_seconds: float) -> None:
        """Make the building generation live at once and keep the former one; what was kept before is dropped."""
        await self._generations.promote(tenant, number, ends_at=end_of(deadline_seconds))

    async def entries(
        self, tenant: str, number: int, *, after: tuple[str, str] | None, limit: int, deadline_seconds: float
    ) -> Sequence[Entry]:
        """List a generation in order of (scope, id), tombstones included, from behind `after` on."""
        ends_at = end_of(deadline_seconds)
        index = index_of(tenant, number)
        try:
            if after is None:  # a listing begins with what is there by then
                await self._cluster.ask("POST", f"/{index}/_refresh", ends_at=ends_at)
            answer = await self._cluster.ask("POST", f"/{index}/_search", entries_body(after, limit), ends_at=ends_at)
        except IndexGone:
            return []
        check_answer(answer)
        with reading():
            return read_entries(answer)

    async def drop(self, tenant: str, *, deadline_seconds: float) -> None:
        """Take every generation of the tenant away, and all that is in them."""
        await self._generations.drop_all(tenant, ends_at=end_of(deadline_seconds))

    async def close(self) -> None:
        """Close the connections of this event loop."""
        await self._cluster.close()

    async def _ask_together(
        self, live: StoredGeneration, bodies: Sequence[Mapping[str, Any]], ends_at: float
    ) -> list[Mapping[str, Any]]:
        if not bodies:
            return []
        answer = await self._cluster.ask("POST", f"/{live.index}/_msearch", lines(bodies), ends_at=ends_at)
        with reading():
            answers: list[Mapping[str, Any]] = [answer["responses"][at] for at in range(len(bodies))]
        for one in answers:
            check_answer(one)
        return answers

    async def _put_apart(self, documents: Sequence[Document], seconds: float) -> list[Put]:
        """Put documents; when the embedder will never take one of them, each by itself to find out which."""
        try:
            return await self._put(documents, seconds)
        except Rejected as error:
            if len(documents) == 1:
                return [Put(documents[0].id, "failed", str(error))]
        return [outcome for document in documents for outcome in await self._put_apart([document], seconds)]

    async def _put(self, documents: Sequence[Document], seconds: float) -> list[Put]:
        refused = {id(one): because for one in documents if (because := _refused(one.tenant, one.scope, one.id))}
        newest = _newest([one for one in documents if id(one) not in refused])
        results: dict[int, list[Result]] = {id(one): [] for one in newest}
        if newest:
            for write, result in await self._written(newest, seconds):
                results[id(write.document)].append(result)
        return [
            Put(one.id, "failed", refused[id(one)]) if id(one) in refused else _outcome(one, results.get(id(one), ()))
            for one in documents
        ]

    async def _written(self, documents: Sequence[Document], seconds: float) -> list[tuple[Write, Result]]:
        """Write what is not there yet, to every generation that lacks it."""
        ends_at = end_of(seconds)
        targets = await self._generations.writable(documents[0].tenant, ends_at=ends_at)
        answer = await self._cluster.ask("POST", "/_mget", versions_body(documents, targets), ends_at=ends_at)
        places = [(document, target) for target in targets for document in documents]
        with reading():
            known = list(zip(places, read_versions(answer), strict=True))
        lacking = [place for place, version in known if version < place[0].version]
        texts = {id(document): text_of(document) for document, _ in lacking}
        vectors = await self._embedded([text for text in texts.values() if text])

        def made() -> list[Write]:
            sources = {
                id(document): source_of(document, texts[id(document)], vectors.get(texts[id(document)]))
                for document, _ in lacking
            }
            return [Write(document, target, sources[id(document)]) for document, target in lacking]

        writes = await aside(sum(map(len, texts.values())), made)
        return await self._write(writes, end_of(seconds))

    async def _embedded(self, texts: Sequence[str]) -> Mapping[str, Vectors]:
        different = list(dict.fromkeys(texts))
        if self._embedder is None or not different:
            return {}
        return dict(zip(different, await self._embedder.embed(different), strict=True))

    async def _write(self, writes: Sequence[Write], ends_at: float) -> list[tuple[Write, Result]]:
        """Write in bulk; what the store has no room for now is sent again until the deadline."""
        done: list[tuple[Write, Result]] = []
        left, wait = list(writes), _FIRST_WAIT_SECONDS
        while left:
            again: list[Write] = []
            for batch, body in batches(left):
                for write, result in await self._bulk(batch, body, ends_at):
                    if result.fate == "again":
                        again.append(write)
                    else:
                        done.append((write, result))
            left = again
            if left:
                wait = await _pause(wait, ends_at)
        if any(result.fate == "gone" for _, result in done):
            raise StoreUnavailable("A generation of the index was dropped while it was written.")
        blocked = next((result for _, result in done if result.fate == "blocked"), None)
        if blocked is not None:
            raise StoreUnavailable(f"OpenSearch lets nobody write to the index now ({blocked.because}).")
        return done

    async def _bulk(self, batch: Sequence[Write], body: str, ends_at: float) -> list[tuple[Write, Result]]:
        """Write one batch, in halves where it is too large for the server or what is in front of it."""
        try:
            answer = await self._cluster.ask("POST", "/_bulk", body, ends_at=ends_at)
        except RequestTooLarge:
            if len(batch) == 1:
                return [(batch[0], too_large())]
            middle = len(batch) // 2
            halves = (batch[:middle], batch[middle:])
            return [one for half in halves for one in await self._bulk(half, "".join(w.lines for w in half), ends_at)]
        with reading():
            return list(zip(batch, read_results(answer), strict=True))


async def _pause(wait_seconds: float, ends_at: float) -> float:
    """Wait for about that long, and give how long to wait next."""
    if time.monotonic() + wait_seconds >= ends_at:
        raise StoreUnavailable("OpenSearch has no room for more writes now.")
    await asyncio.sleep(wait_seconds * random.uniform(0.5, 1.0))  # noqa: S311  because nothing secret hangs on it
    return min(2 * wait_seconds, _LONGEST_WAIT_SECONDS)


def _refused(*identifiers: str) -> str | None:
    for text in identifiers:
        if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
            return "An identifier holds a character that is no text."
    return None


def _newest(documents: Sequence[Document]) -> list[Document]:
    newest: dict[tuple[str, str], Document] = {}
    for document in documents:
        known = newest.get((document.scope, document.id))
        if known is None or known.version < document.version:
            newest[document.scope, document.id] = document
    return list(newest.values())


def _outcome(document: Document, results: Sequence[Result]) -> Put:
    failed = next((one for one in results if one.fate == "failed"), None)
    if failed is not None:
        return Put(document.id, "failed", failed.because)
    stored = any(one.fate == "stored" for one in results)
    return Put(document.id, "stored" if stored else "older")


def _other_embedder(live: StoredGeneration) -> str:
    made = live.generation.embedder
    return f"the index has {f'vectors of {made}' if made else 'no vectors'}: run poimen rebuild --index"
