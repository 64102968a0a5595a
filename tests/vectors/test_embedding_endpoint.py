import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from memory.errors import Rejected, StoreUnavailable
from memory.settings import EmbeddingSettings
from memory.vectors import endpoint
from memory.vectors.endpoint import EndpointEmbedder

Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Service:
    """What was asked of it, and what it answers."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    answer: Callable[[list[str]], Answer] = lambda texts: embeddings([[len(text), 1] for text in texts])
    silent: bool = False
    ended: threading.Event = field(default_factory=threading.Event)


def embeddings(rows: list[Any]) -> Answer:
    # In reverse, as the interface allows: the index counts.
    data = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(rows)]
    return 200, {}, json.dumps({"object": "list", "data": data[::-1]}).encode()


@pytest.fixture
def service() -> Iterator[Service]:
    state = Service()

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.asked.append(body | {"path": self.path})
            state.keys.append(self.headers["Authorization"])
            if state.silent:
                state.ended.wait(20)
                return
            status, headers, answer = state.answer(body["input"])
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(answer))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *words: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    state.ended.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest_asyncio.fixture
async def embedder(service: Service) -> AsyncIterator[EndpointEmbedder]:
    settings = EmbeddingSettings(base_url=service.url, model="small", dimension=2, api_key="key-1")
    made = EndpointEmbedder(settings, request_seconds=0.5 if service.silent else 10)
    yield made
    await made.close()


async def test_texts_come_back_in_their_order_with_length_one(service: Service, embedder: EndpointEmbedder) -> None:
    vectors = await embedder.embed(["abc", "", "x" * 9_000])
    directions = np.array([[3, 1], [1, 1], [8_000, 1]])
    assert vectors == pytest.approx(directions / np.linalg.norm(directions, axis=1, keepdims=True))
    assert vectors.dtype == np.float32
    assert (embedder.name, embedder.dimension) == ("endpoint:small", 2)
    (asked,) = service.asked
    assert (asked["path"], asked["model"]) == ("/v1/embeddings", "small")
    assert service.keys == ["Bearer key-1"]


async def test_many_texts_are_asked_in_batches(service: Service, embedder: EndpointEmbedder) -> None:
    vectors = await embedder.embed(["x" * (1 + at % 7) for at in range(130)])
    assert [len(asked["input"]) for asked in service.asked] == [64, 64, 2]
    assert vectors[:7] == pytest.approx(vectors[63:70])


async def test_nothing_is_asked_for_no_texts(service: Service, embedder: EndpointEmbedder) -> None:
    assert (await embedder.embed([])).shape == (0, 2)
    assert service.asked == []


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((401, {}, b"{}"), "refuses the key"),
        ((500, {}, b"secret words"), r"answers with HTTP 500$"),
        ((200, {}, b"<html>"), "not a list of embeddings"),
        ((200, {}, b'{"data": [{"index": 5, "embedding": [1, 2]}]}'), "not a list of embeddings"),
        ((200, {}, b'{"data": [{"embedding": ["a", 2]}]}'), "not a list of embeddings"),
        (embeddings([[1, 2], [1, 2]]), "gave 2 vectors for 1 texts"),
        (embeddings([[1, 2, 3]]), "vectors of 3 numbers; 2 are set"),
        (embeddings([[0, 0]]), "without a direction"),
        (embeddings([[1e400, 0]]), "without a direction"),
    ],
)
async def test_what_cannot_be_used_is_said_in_a_sentence(
    service: Service, embedder: EndpointEmbedder, answer: Answer, sentence: str
) -> None:
    service.answer = lambda _: answer
    with pytest.raises(StoreUnavailable, match=sentence) as caught:
        await embedder.embed(["words"])
    assert "127.0.0.1" not in str(caught.value)


@pytest.mark.parametrize(("named", "seconds"), [("7", 7), ("86400", 300), ("soon", 1), ("-3", 0), ("nan", 1)])
async def test_the_wait_that_a_service_asks_for_is_passed_on(
    service: Service, embedder: EndpointEmbedder, named: str, seconds: float
) -> None:
    service.answer = lambda _: (429, {"Retry-After": named}, b"")
    with pytest.raises(StoreUnavailable) as caught:
        await embedder.embed(["words"])
    assert caught.value.retry_after_seconds == seconds


async def test_an_answer_without_end_is_not_read_to_it(
    service: Service, embedder: EndpointEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "MOST_BODY_BYTES", 1_000)
    service.answer = lambda _: (200, {}, b" " * 100_000)
    with pytest.raises(StoreUnavailable, match="has no end"):
        await embedder.embed(["words"])


async def test_silence_ends_with_the_time_out(service: Service) -> None:
    service.silent = True
    settings = EmbeddingSettings(base_url=service.url, model="small", dimension=2)
    silent = EndpointEmbedder(settings, request_seconds=0.2)
    with pytest.raises(StoreUnavailable, match="did not answer in time"):
        await silent.embed(["words"])
    await silent.close()
    assert service.keys == [None]


def taking(service: Service, takes: Callable[[str], bool], status: int) -> None:
    def answer(texts: list[str]) -> Answer:
        if all(map(takes, texts)):
            return embeddings([[len(text), 1] for text in texts])
        return status, {}, b"must have less than 512 tokens"

    service.answer = answer


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_text_too_long_for_the_service_is_cut_and_no_other(
    service: Service, embedder: EndpointEmbedder, status: int
) -> None:
    taking(service, lambda text: len(text) <= 2_000, status)
    vectors = await embedder.embed(["x" * 3, "y" * 1_900, "z" * 7_000, "x" * 5])
    lengths = vectors[:, 0] / vectors[:, 1]
    assert lengths == pytest.approx([3, 1_900, 1_750, 5], rel=1e-3)


async def test_a_text_that_the_service_never_takes_is_refused_for_good(
    service: Service, embedder: EndpointEmbedder
) -> None:
    taking(service, lambda text: "odd" not in text, 400)
    with pytest.raises(Rejected, match=r"does not take this text \(HTTP 400\)"):
        await embedder.embed(["one", "odd" * 1_000, "two"])
    assert (await embedder.embed(["one", "two"])).shape == (2, 2)


async def test_a_service_that_takes_no_text_is_waited_for(service: Service, embedder: EndpointEmbedder) -> None:
    taking(service, lambda _: False, 400)
    with pytest.raises(StoreUnavailable, match="takes no text at all") as caught:
        await embedder.embed(["x" * 9_000] * 64)
    assert caught.value.retry_after_seconds == 30
    assert len(service.asked) < 20


async def test_an_answer_that_trickles_ends_with_the_time_out() -> None:
    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        with contextlib.suppress(OSError):
            while not reader.at_eof():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)
        writer.close()

    server = await asyncio.start_server(trickle, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    slow = EndpointEmbedder(EmbeddingSettings(base_url=url, model="small", dimension=2), request_seconds=0.2)
    async with asyncio.timeout(20):
        with pytest.raises(StoreUnavailable, match="did not answer in time"):
            await slow.embed(["words"])
    await slow.close()
    server.close()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/v1", "no address", "http://user:secret@[::1"])
async def test_a_service_that_is_not_there_is_unavailable(url: str) -> None:
    gone = EndpointEmbedder(EmbeddingSettings(base_url=url, model="small", dimension=2, api_key="schlüssel"))
    with pytest.raises(StoreUnavailable, match="could not be asked") as caught:
        await gone.embed(["words"])
    assert "secret" not in str(caught.value)
    await gone.close()
