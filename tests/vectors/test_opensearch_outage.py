"""OpenSearch down, silent, full, or one that lets nobody in."""

import asyncio
import ssl
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientSession, web

from memory.errors import StoreUnavailable
from memory.settings import OpenSearchSettings
from memory.vectors.breaker import LOSSES, Breaker
from memory.vectors.index import Document, Query
from memory.vectors.opensearch import OpenSearchIndex
from memory.vectors.opensearch_generations import Generations
from memory.vectors.opensearch_mapping import index_of
from memory.vectors.opensearch_queries import packed, read_candidates
from memory.vectors.tokens import terms
from tests.packaging.programs import run_program
from tests.tcp_proxy import TcpProxy
from tests.vectors.conftest import SCOPE, SECONDS, Store
from tests.vectors.hashed import HashedEmbedder
from worker.stack.opensearch import RunningOpenSearch

ALLOWED = f"Basic {b64encode(b'poimen:the password').decode()}"
PORT = "the port 8080 is in use by another server"
LOCK = "a stale lock file blocks the migration"


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_breaker_opens_after_losses_in_a_row_and_asks_once_after_a_pause() -> None:
    clock = Clock()
    breaker = Breaker(clock)
    for _ in range(LOSSES - 1):
        breaker.lost()
    breaker.answered()
    for _ in range(LOSSES):
        assert breaker.allows()
        breaker.lost()
    assert (breaker.state, breaker.allows()) == ("open", False)
    clock.now += breaker.seconds_left
    assert breaker.state == "half open"
    assert [breaker.allows(), breaker.allows()] == [True, False]
    breaker.answered()
    assert (breaker.state, breaker.allows()) == ("closed", True)


def test_a_breaker_waits_longer_after_each_probe_that_is_lost() -> None:
    clock = Clock()
    breaker = Breaker(clock)
    pauses = []
    for _ in range(LOSSES):
        breaker.lost()
    for _ in range(6):
        pauses.append(breaker.seconds_left)
        clock.now += breaker.seconds_left
        assert breaker.allows()
        breaker.lost()
    assert pauses == [2, 4, 8, 16, 30, 30]


def test_a_probe_that_was_given_up_leaves_the_next_one_to_another() -> None:
    clock = Clock()
    breaker = Breaker(clock)
    for _ in range(LOSSES):
        breaker.lost()
    clock.now += breaker.seconds_left
    assert breaker.allows()
    breaker.withdrawn()
    assert breaker.allows()


@pytest_asyncio.fixture(loop_scope="session")
async def made() -> AsyncIterator[list[OpenSearchIndex]]:
    """Indexes that are closed after the test."""
    indexes: list[OpenSearchIndex] = []
    yield indexes
    for index in indexes:
        await index.close()


@pytest_asyncio.fixture(loop_scope="session")
async def proxied(
    opensearch_server: RunningOpenSearch,
    tcp_proxy: Callable[[str, int], Awaitable[TcpProxy]],
    made: list[OpenSearchIndex],
) -> tuple[TcpProxy, OpenSearchIndex]:
    """An index whose connections a test can break."""
    proxy = await tcp_proxy(opensearch_server.host, opensearch_server.port)
    url = f"http://127.0.0.1:{proxy.port}"
    made.append(OpenSearchIndex(OpenSearchSettings(urls=(url,), request_seconds=SECONDS), HashedEmbedder()))
    return proxy, made[-1]


async def test_a_server_that_is_silent_keeps_nobody_beyond_the_deadline(
    opensearch_store: Store, proxied: tuple[TcpProxy, OpenSearchIndex]
) -> None:
    proxy, index = proxied
    await opensearch_store.put(opensearch_store.document("port", PORT))
    query = Query(tenant=opensearch_store.tenant, scope=SCOPE, text=PORT)
    assert (await index.search(query, deadline_seconds=SECONDS)).hits
    proxy.black_hole()
    deadline = 0.4
    for _ in range(LOSSES):
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="not answer in time"):
            async with asyncio.timeout(deadline):  # a caller's own, which must not be what ends it
                await index.search(query, deadline_seconds=deadline)
        assert time.monotonic() - began < 2 * deadline
    connections = proxy.connections
    with pytest.raises(StoreUnavailable, match="breaker is open") as refused:
        await index.health(opensearch_store.tenant, deadline_seconds=SECONDS)
    assert refused.value.retry_after_seconds > 0
    assert proxy.connections == connections


async def test_a_breaker_closes_when_the_server_is_back(
    opensearch_store: Store, proxied: tuple[TcpProxy, OpenSearchIndex]
) -> None:
    proxy, index = proxied
    clock = Clock()
    index.breaker.clock = clock
    await opensearch_store.put(opensearch_store.document("port", PORT))
    query = Query(tenant=opensearch_store.tenant, scope=SCOPE, text=PORT)
    await proxy.refuse()
    for _ in range(LOSSES):
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await index.search(query, deadline_seconds=SECONDS)
    await proxy.pass_on()
    with pytest.raises(StoreUnavailable, match="left alone"):
        await index.search(query, deadline_seconds=SECONDS)
    clock.now += index.breaker.seconds_left
    assert [hit.id for hit in (await index.search(query, deadline_seconds=SECONDS)).hits] == ["port"]
    assert index.breaker.state == "closed"


async def test_a_connection_that_was_cut_costs_one_call(
    opensearch_store: Store, proxied: tuple[TcpProxy, OpenSearchIndex]
) -> None:
    proxy, index = proxied
    tenant = opensearch_store.tenant
    await index.health(tenant, deadline_seconds=SECONDS)
    await proxy.refuse()
    with pytest.raises(StoreUnavailable):
        await index.health(tenant, deadline_seconds=SECONDS)
    await proxy.pass_on()
    assert (await index.health(tenant, deadline_seconds=SECONDS)).health == "ok"


class Gate:
    """A server in front of OpenSearch: with TLS and a password, and able to refuse writes."""

    def __init__(self, target: str, session: ClientSession) -> None:
        self.url = ""
        self.bulk_answers: list[Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]] = []
        self.most_bytes = 2**26
        self._target = target
        self._session = session

    async def answer(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != ALLOWED:
            return web.json_response({"error": "Unauthorized"}, status=401)
        body = await request.read()
        if len(body) > self.most_bytes:
            return web.Response(status=413, text="<html>Too large</html>", content_type="text/html")
        headers = {"Content-Type": request.headers.get("Content-Type", "application/json")}
        url = f"{self._target}{request.path_qs}"
        async with self._session.request(request.method, url, data=body, headers=headers) as answered:
            status, told = answered.status, await answered.json()
        if request.path == "/_bulk" and self.bulk_answers:
            status, told = self.bulk_answers.pop(0)(told)
        return web.json_response(told, status=status)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of 127.0.0.1 that only who is given it trusts, and its key beside it."""
    folder = tmp_path_factory.mktemp("authority")
    run_program(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-days", "30", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
            "-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem"),
        ]
    )  # fmt: skip
    return folder / "certificate.pem"


@pytest_asyncio.fixture(loop_scope="session")
async def gate(opensearch_server: RunningOpenSearch, authority: Path) -> AsyncIterator[Gate]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority, authority.with_name("key.pem"))
    async with ClientSession() as session:
        front = Gate(opensearch_server.url, session)
        application = web.Application(client_max_size=2**26)
        application.router.add_route("*", "/{path:.*}", front.answer)
        runner = web.AppRunner(application)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
            await site.start()
            assert site._server is not None
            front.url = f"https://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
            yield front
        finally:
            await runner.cleanup()


def through(gate: Gate, **values: Any) -> OpenSearchIndex:
    given = {"user": "poimen", "password": "the password", "request_seconds": SECONDS, **values}
    return OpenSearchIndex(OpenSearchSettings(urls=(gate.url,), **given), HashedEmbedder())


async def test_tls_and_the_password_reach_the_server(
    gate: Gate, authority: Path, opensearch_store: Store, made: list[OpenSearchIndex]
) -> None:
    made.append(through(gate, ca_file=authority))
    await opensearch_store.begin()
    document = opensearch_store.document("port", PORT)
    assert [one.outcome for one in await made[0].put([document], deadline_seconds=SECONDS)] == ["stored"]
    assert (await made[0].health(document.tenant, deadline_seconds=SECONDS)).health == "ok"


async def test_a_certificate_of_a_stranger_is_refused(gate: Gate, made: list[OpenSearchIndex]) -> None:
    made.append(through(gate))
    with pytest.raises(StoreUnavailable, match="certificate is not trusted; POIMEN_OPENSEARCH_CA"):
        await made[0].health("t", deadline_seconds=SECONDS)


async def test_a_file_that_holds_no_certificate_is_named(
    gate: Gate, made: list[OpenSearchIndex], tmp_path: Path
) -> None:
    (tmp_path / "empty.pem").write_text("")
    for file in ("empty.pem", "missing.pem"):
        made.append(through(gate, ca_file=tmp_path / file))
        with pytest.raises(StoreUnavailable, match="POIMEN_OPENSEARCH_CA names cannot be read"):
            await made[-1].health("t", deadline_seconds=SECONDS)


async def test_a_wrong_password_is_said_and_opens_no_breaker(
    gate: Gate, authority: Path, made: list[OpenSearchIndex]
) -> None:
    made.append(through(gate, ca_file=authority, password="another"))
    for _ in range(LOSSES + 1):
        with pytest.raises(StoreUnavailable, match="POIMEN_OPENSEARCH_USER and POIMEN_OPENSEARCH_PASSWORD") as refused:
            await made[0].health("t", deadline_seconds=SECONDS)
    assert refused.value.retry_after_seconds > 1


def refusing(places: set[int], status: int, kind: str) -> Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]:
    """Say of some writes of a request that they were refused."""

    def change(told: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        for place in places:
            error = {"type": kind, "reason": "what was written"}
            told["items"][place]["index"] |= {"status": status, "error": error}
        return 200, told | {"errors": True}

    return change


async def test_a_write_that_finds_no_room_is_sent_again_alone(
    gate: Gate, authority: Path, opensearch_store: Store, made: list[OpenSearchIndex]
) -> None:
    made.append(through(gate, ca_file=authority))
    await opensearch_store.begin()
    sizes = []

    def none(told: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        sizes.append(len(told["items"]))
        return 200, told

    gate.bulk_answers = [refusing({1}, 429, "rejected_execution_exception"), none]
    documents = [opensearch_store.document(f"x{number}", PORT) for number in range(3)]
    outcomes = await made[0].put(documents, deadline_seconds=SECONDS)
    # It was written the first time in truth, so that the second finds it there.
    assert [one.outcome for one in outcomes] == ["stored", "older", "stored"]
    assert sizes == [1]


async def test_a_write_that_never_finds_room_is_unavailable(
    gate: Gate, authority: Path, opensearch_store: Store, made: list[OpenSearchIndex]
) -> None:
    made.append(through(gate, ca_file=authority))
    await opensearch_store.begin()
    gate.bulk_answers = [refusing({0}, 503, "unavailable_shards_exception")] * 100
    with pytest.raises(StoreUnavailable, match="no room"):
        await made[0].put([opensearch_store.document("x", PORT)], deadline_seconds=1.5)


async def test_a_document_that_is_refused_fails_alone_without_its_words(
    gate: Gate, authority: Path, opensearch_store: Store, made: list[OpenSearchIndex]
) -> None:
    made.append(through(gate, ca_file=authority))
    await opensearch_store.begin()
    gate.bulk_answers = [refusing({0}, 400, "mapper_parsing_exception")]
    documents = [opensearch_store.document(f"x{number}", PORT) for number in range(2)]
    failed, stored = await made[0].put(documents, deadline_seconds=SECONDS)
    assert (failed.outcome, failed.because) == ("failed", "mapper_parsing_exception")
    assert stored.outcome == "stored"


async def test_a_request_that_is_refused_as_a_whole_is_unavailable(
    gate: Gate, authority: Path, opensearch_store: Store, made: list[OpenSearchIndex]
) -> None:
    made.append(through(gate, ca_file=authority))
    await opensearch_store.begin()
    full = {"error": {"type": "cluster_block_exception", "reason": "disk"}, "status": 429}
    gate.bulk_answers = [lambda _: (429, full)]
    with pytest.raises(StoreUnavailable, match="takes no writes now"):
        await made[0].put([opensearch_store.document("x", PORT)], deadline_seconds=SECONDS)


async def test_a_generation_that_is_dropped_meanwhile_is_not_made_again_by_a_write(opensearch_store: Store) -> None:
    index, tenant = opensearch_store.index, opensearch_store.tenant
    await opensearch_store.put(opensearch_store.document("x", PORT))
    first = await index.begin(tenant, deadline_seconds=SECONDS)

    class Dropping(HashedEmbedder):
        async def embed(self, texts):  # type: ignore[no-untyped-def]
            await index.begin(tenant, deadline_seconds=SECONDS)
            return await super().embed(texts)

    late = opensearch_store.another(Dropping())
    with pytest.raises(StoreUnavailable, match="was dropped while it was written"):
        await late.put([opensearch_store.document("y", PORT)], deadline_seconds=SECONDS)
    numbers = [one.number for one in await index.generations(tenant, deadline_seconds=SECONDS)]
    assert first.number not in numbers


@pytest.mark.parametrize(
    ("status", "kind", "text"),
    [
        (200, "text/html", "<html>A page</html>"),
        (200, "text/plain", "ok"),
        (200, "application/json", '["ok"]'),
        (200, "application/json", '{"message": "ok"}'),
        (400, "text/plain", "The plain HTTP request was sent to HTTPS port"),
        (404, "text/plain", "404 page not found"),
        (404, "application/json", '{"message": "no Route matched"}'),
        (405, "text/html", "<html>Not Allowed</html>"),
        (409, "application/json", '{"error": "conflict"}'),
    ],
)
async def test_what_is_no_opensearch_keeps_every_call_waiting(
    made: list[OpenSearchIndex], unused_tcp_port: int, status: int, kind: str, text: str
) -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response(status=status, text=text, content_type=kind)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", page)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", unused_tcp_port).start()
    made.append(OpenSearchIndex(OpenSearchSettings(urls=(f"http://127.0.0.1:{unused_tcp_port}",))))
    document = Document(tenant="t", scope=SCOPE, id="x", kind="lesson", level="L1", text=PORT, version=1)
    asked: list[Callable[[], Awaitable[object]]] = [
        lambda: made[0].put([document], deadline_seconds=SECONDS),
        lambda: made[0].search(Query(tenant="t", scope=SCOPE, text=PORT), deadline_seconds=SECONDS),
        lambda: made[0].generations("t", deadline_seconds=SECONDS),
        lambda: made[0].begin("t", deadline_seconds=SECONDS),
        lambda: made[0].promote("t", 1, deadline_seconds=SECONDS),
        lambda: made[0].entries("t", 1, after=None, limit=1, deadline_seconds=SECONDS),
        lambda: made[0].health("t", deadline_seconds=SECONDS),
    ]
    try:
        for ask in asked:
            with pytest.raises(StoreUnavailable, match=r"not OpenSearch|in its place"):
                await ask()
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "security_exception"),
        (403, "security_exception"),
        (403, "cluster_block_exception"),
        (400, "index_closed_exception"),
        (400, "strict_dynamic_mapping_exception"),
    ],
)
async def test_a_write_that_the_index_lets_nobody_make_is_no_documents_fault(
    gate: Gate, authority: Path, opensearch_store: Store, made: list[OpenSearchIndex], status: int, kind: str
) -> None:
    made.append(through(gate, ca_file=authority))
    await opensearch_store.begin()
    gate.bulk_answers = [refusing({1}, status, kind)]
    documents = [opensearch_store.document(f"x{number}", PORT) for number in range(2)]
    with pytest.raises(StoreUnavailable, match=kind):
        await made[0].put(documents, deadline_seconds=SECONDS)


async def test_a_request_that_is_too_large_for_a_proxy_is_sent_in_parts(
    gate: Gate, authority: Path, opensearch_store: Store, made: list[OpenSearchIndex]
) -> None:
    made.append(through(gate, ca_file=authority))
    await opensearch_store.begin()
    gate.most_bytes = 4_000
    texts = [PORT, LOCK, PORT, "word " * 2_000]
    documents = [opensearch_store.document(f"x{number}", text) for number, text in enumerate(texts)]
    outcomes = await made[0].put(documents, deadline_seconds=SECONDS)
    assert [one.outcome for one in outcomes] == ["stored", "stored", "stored", "failed"]
    assert outcomes[-1].because == "request_too_large"


async def test_a_node_that_is_silent_is_left_alone_while_another_answers(
    opensearch_server: RunningOpenSearch,
    tcp_proxy: Callable[[str, int], Awaitable[TcpProxy]],
    opensearch_store: Store,
    made: list[OpenSearchIndex],
) -> None:
    silent = await tcp_proxy(opensearch_server.host, opensearch_server.port)
    silent.black_hole()
    await opensearch_store.put(opensearch_store.document("port", PORT))
    urls = (f"http://127.0.0.1:{silent.port}", opensearch_server.url)
    made.append(OpenSearchIndex(OpenSearchSettings(urls=urls), HashedEmbedder()))
    lost = 0
    for _ in range(4):
        try:
            await made[0].generations(opensearch_store.tenant, deadline_seconds=0.5)
        except StoreUnavailable:
            lost += 1
    assert lost == 1


async def test_a_live_index_that_was_lost_leaves_the_kept_one_as_it_is(
    opensearch_store: Store, opensearch_server: RunningOpenSearch
) -> None:
    index, tenant = opensearch_store.index, opensearch_store.tenant
    await opensearch_store.put(opensearch_store.document("port", PORT))
    lost = await index.begin(tenant, deadline_seconds=SECONDS)
    await index.promote(tenant, lost.number, deadline_seconds=SECONDS)
    assert await opensearch_store.ids(PORT) == []
    await dropped(opensearch_server, index_of(tenant, lost.number))
    # It was known to be live a moment ago.
    assert await opensearch_store.ids(PORT) == []
    assert [one.state for one in await index.generations(tenant, deadline_seconds=SECONDS)] == ["kept"]
    with pytest.raises(StoreUnavailable, match="no index yet, or it is gone"):
        await index.put([opensearch_store.document("port", PORT)], deadline_seconds=SECONDS)
    again = await index.begin(tenant, deadline_seconds=SECONDS)
    assert await opensearch_store.put(opensearch_store.document("port", PORT)) == ["stored"]
    await index.promote(tenant, again.number, deadline_seconds=SECONDS)
    assert await opensearch_store.ids(PORT) == ["port"]


async def test_a_generation_that_another_promotes_meanwhile_is_not_dropped(
    opensearch_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, tenant = opensearch_store.another(HashedEmbedder()), opensearch_store.tenant
    await opensearch_store.begin()
    building = await index.begin(tenant, deadline_seconds=SECONDS)
    assert await opensearch_store.put(opensearch_store.document("port", PORT)) == ["stored"]
    make = Generations._make

    async def make_late(*given: Any) -> bool:
        await opensearch_store.index.promote(tenant, building.number, deadline_seconds=SECONDS)
        return await make(*given)

    monkeypatch.setattr(Generations, "_make", make_late)
    begun = await index.begin(tenant, deadline_seconds=SECONDS)
    states = [(one.number, one.state) for one in await index.generations(tenant, deadline_seconds=SECONDS)]
    assert states[:2] == [(begun.number, "building"), (building.number, "live")]
    assert await opensearch_store.ids(PORT) == ["port"]


def test_a_document_that_comes_in_two_versions_is_one_candidate() -> None:
    def hit(text: str, version: int, scope: str = SCOPE) -> dict[str, Any]:
        document = Document(tenant="t", scope=scope, id="x", kind="lesson", level="L1", text=text, version=version)
        told = packed(document, terms(text), HashedEmbedder().vector(text))
        return {"fields": {"packed": [told.translate(str.maketrans("+/", "-_", "="))]}}

    answers = [{"hits": {"hits": [hit(PORT, 2)]}}, {"hits": {"hits": [hit(LOCK, 1), hit(LOCK, 1, "@library")]}}]
    found = read_candidates(answers, ("port", "lock"))
    assert sorted(sorted(one.frequencies) for one in found) == [["lock"], ["port"]]


async def dropped(server: RunningOpenSearch, *indices: str) -> None:
    """Take indices away behind everybody's back."""
    async with ClientSession(server.url) as session:
        for index in indices:
            async with session.delete(f"/{index}") as answer:
                answer.raise_for_status()
