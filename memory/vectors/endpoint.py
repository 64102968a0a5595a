"""An embedding model behind the OpenAI-compatible HTTP interface (`/embeddings`)."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import Mapping, Sequence
from functools import cache
from math import isfinite
from typing import Any, Final

import httpx
import numpy as np

from memory.aside import aside
from memory.errors import Rejected, StoreUnavailable
from memory.settings import EmbeddingSettings
from memory.vectors.embedder import Vectors

BATCH: Final = 64
# Common services refuse more than 8,192 tokens, and no script takes more than about one of them a character.
LONGEST_TEXT: Final = 8_000
# No model reads less than some hundred tokens.
SHORTEST_CUT: Final = 250
REQUEST_SECONDS: Final = 10.0
MOST_BODY_BYTES: Final = 16 * 1024 * 1024
# A wrong key or dimension stays wrong until somebody changes a setting.
SETTINGS_RETRY_SECONDS: Final = 30.0
LONGEST_RETRY_SECONDS: Final = 300.0
# How services say that they do not take what they were given: too long, too much, or something in it.
_NOT_TAKEN: Final = frozenset(
    {httpx.codes.BAD_REQUEST, httpx.codes.REQUEST_ENTITY_TOO_LARGE, httpx.codes.UNPROCESSABLE_ENTITY}
)
_ANY_TEXT: Final = "word"


class _NotTaken(Exception):
    """The service refuses these texts, or their number; `status` is HTTP's."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class EndpointEmbedder:
    """An Embedder that asks a service. It is used in one event loop and closed in it."""

    def __init__(self, settings: EmbeddingSettings, *, request_seconds: float = REQUEST_SECONDS) -> None:
        self.name = f"endpoint:{settings.model}"
        self.dimension = settings.dimension
        self._settings = settings
        self._request_seconds = request_seconds
        headers = {b"Accept-Encoding": b"identity"}  # a compressed body would pass the bound and unfold behind it
        if settings.api_key:
            headers[b"Authorization"] = f"Bearer {settings.api_key}".encode()
        # trust_env stays off: a proxy of the environment is no setting of the memory.
        self._client = httpx.AsyncClient(headers=headers, timeout=request_seconds, trust_env=False, verify=_tls())

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Give float32 of shape (texts, dimension), rows of length 1; a text is read up to 8,000 characters.

        One that is too long for the service is read up to a half of that, a quarter, and so on. Raises Rejected when
        the service takes others but not one of these, StoreUnavailable when it does not answer, refuses all, or gives
        something else than asked for.
        """
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), BATCH):
            # An empty text is refused by common services.
            batch = [text[:LONGEST_TEXT] or " " for text in texts[start : start + BATCH]]
            vectors[start : start + len(batch)] = await self._embed(batch)
        return vectors

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def _embed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts together; when they are not taken so, by halves, until one is left that is not taken alone."""
        try:
            return await self._vectors(texts)
        except _NotTaken as refused:
            if len(texts) == 1:
                return await self._embed_cut(texts[0], refused.status)
        half = len(texts) // 2
        return np.concatenate([await self._embed(texts[:half]), await self._embed(texts[half:])])

    async def _embed_cut(self, text: str, status: int) -> Vectors:
        """Embed as much of a text as is taken; how long it may be depends on its script and on the model."""
        while len(text) > SHORTEST_CUT:
            text = text[: len(text) // 2]
            with contextlib.suppress(_NotTaken):
                return await self._vectors([text])
        try:
            await self._vectors([_ANY_TEXT])
        except _NotTaken:
            # Then it is not the text: the service's name for the model is another, or a setting of it.
            because = f"the embedding service takes no text at all (HTTP {status})"
            raise StoreUnavailable(because, retry_after_seconds=SETTINGS_RETRY_SECONDS) from None
        raise Rejected(f"the embedding service does not take this text (HTTP {status})")

    async def _vectors(self, texts: Sequence[str]) -> Vectors:
        body = await self._ask(texts)
        return await aside(len(body), self._read, body, len(texts))

    async def _ask(self, texts: Sequence[str]) -> bytes:
        url = f"{self._settings.base_url.rstrip('/')}/embeddings"
        given = {"model": self._settings.model, "input": texts}
        try:
            # The client's own time-out begins again with each part of an answer.
            async with (
                asyncio.timeout(self._request_seconds),
                self._client.stream("POST", url, json=given) as response,
            ):
                body = await _read_bounded(response)
        except (httpx.TimeoutException, TimeoutError):
            raise StoreUnavailable("the embedding service did not answer in time") from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            # The library's own text may hold the URL, and a URL may hold credentials.
            raise StoreUnavailable(f"the embedding service could not be asked ({type(error).__name__})") from None
        if response.status_code in _NOT_TAKEN:
            raise _NotTaken(response.status_code)
        if response.status_code != httpx.codes.OK:
            raise _refusal(response.status_code, response.headers)
        return body

    def _read(self, body: bytes, wanted: int) -> Vectors:
        rows = _rows(body)
        if len(rows) != wanted:
            raise StoreUnavailable(f"the embedding service gave {len(rows)} vectors for {wanted} texts")
        lengths = {len(row) for row in rows} - {self.dimension}
        if lengths:
            because = f"the embedding service gives vectors of {min(lengths)} numbers; {self.dimension} are set"
            raise StoreUnavailable(because, retry_after_seconds=SETTINGS_RETRY_SECONDS)
        vectors = np.array(rows, np.float64)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(norms) & (norms > 0)).all():
            raise StoreUnavailable("the embedding service gave a vector without a direction")
        return np.asarray(vectors / norms, np.float32)


@cache
def _tls() -> ssl.SSLContext:
    # Reading the certificates takes longer than many a request.
    return httpx.create_ssl_context(trust_env=False)


async def _read_bounded(response: httpx.Response) -> bytes:
    body = bytearray()
    async for part in response.aiter_raw():
        body += part
        if len(body) > MOST_BODY_BYTES:
            raise StoreUnavailable("the embedding service's answer has no end")
    return bytes(body)


def _refusal(status: int, headers: Mapping[str, str]) -> StoreUnavailable:
    if status in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
        because = f"the embedding service refuses the key (HTTP {status})"
        return StoreUnavailable(because, retry_after_seconds=SETTINGS_RETRY_SECONDS)
    because = f"the embedding service answers with HTTP {status}"
    return StoreUnavailable(because, retry_after_seconds=_retry_after(headers.get("retry-after", "")))


def _retry_after(seconds: str) -> float:
    try:
        wait = float(seconds)
    except ValueError:  # none is named, or a date is
        return 1.0
    return min(max(wait, 0.0), LONGEST_RETRY_SECONDS) if isfinite(wait) else 1.0


def _rows(body: bytes) -> list[list[Any]]:
    """Read the vectors in the order of the texts; a service may answer in another and number them."""
    try:
        entries = json.loads(body)["data"]
        numbered = [(int(entry.get("index", at)), entry["embedding"]) for at, entry in enumerate(entries)]
        if sorted(at for at, _ in numbered) != list(range(len(numbered))):
            raise ValueError
        # Anything but numbers does not become an array of them.
        return [[float(number) for number in row] for _, row in sorted(numbered, key=lambda entry: entry[0])]
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise StoreUnavailable("the embedding service's answer is not a list of embeddings") from None
