"""The one door to OpenSearch: connections, deadlines, the breaker, and what its errors mean."""

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from opensearchpy import AsyncOpenSearch
from opensearchpy import exceptions as driver

from memory.errors import StoreUnavailable
from memory.settings import OpenSearchSettings
from memory.vectors.breaker import Breaker
from poimen.contracts.problems import safe_name

# A caller's own deadline must not cut the request off before it is known to be late.
_SHARE_OF_DEADLINE: Final = 0.95
# Less than this is no chance to answer, and says nothing of the store.
_FAIR_SECONDS: Final = 0.1
# A person mends it.
_SETTINGS_RETRY_SECONDS: Final = 30.0
_OVERLOADED: Final = frozenset({429, 502, 503, 504})
_TOO_LARGE: Final = 413
_BLOCKED: Final = "cluster_block_exception"
_EXISTS: Final = "resource_already_exists_exception"
_GONE: Final = "index_not_found_exception"
_FORM_ERRORS: Final = (LookupError, TypeError, AttributeError, ValueError)


class RequestRefused(StoreUnavailable):
    """The server does not take a request of this form."""


class IndexGone(StoreUnavailable):
    """The index that was asked is not there."""


class AlreadyThere(StoreUnavailable):
    """What was to be made is there already."""


class RequestTooLarge(StoreUnavailable):
    """The request has more bytes than the server, or what is in front of it, takes at once."""


def end_of(deadline_seconds: float) -> float:
    """Give the instant of the monotonic clock until which requests of a call may take."""
    return time.monotonic() + deadline_seconds * _SHARE_OF_DEADLINE


class Cluster:
    """Requests to one OpenSearch, through a client for each event loop, which is made when it is first needed."""

    def __init__(self, settings: OpenSearchSettings, breaker: Breaker | None = None) -> None:
        self.breaker = breaker or Breaker()
        self._settings = settings
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenSearch] = WeakKeyDictionary()
        # It would log bodies, which hold what was learned, and the addresses of hosts.
        logging.getLogger("opensearch").setLevel(logging.CRITICAL)

    async def ask(
        self, method: str, path: str, body: Mapping[str, Any] | str | None = None, *, ends_at: float, **params: str
    ) -> Any:
        """Send one request and give the answer's JSON; it is not repeated.

        Whatever is wrong with a whole request raises StoreUnavailable, since nothing that was to be stored is at fault:
        RequestRefused, IndexGone, AlreadyThere and RequestTooLarge are kinds of it.
        """
        seconds = min(ends_at - time.monotonic(), self._settings.request_seconds)
        if seconds <= 0:
            raise StoreUnavailable("OpenSearch was not asked, since no time was left.")
        if not self.breaker.allows():
            raise StoreUnavailable(
                f"OpenSearch did not answer {self.breaker.losses} times in a row, so that it is left alone for "
                f"{self.breaker.seconds_left:.1f} s (its breaker is {self.breaker.state}).",
                retry_after_seconds=max(self.breaker.seconds_left, 0.1),
            )
        try:
            answer = await self._client().transport.perform_request(
                method, path, params={**params, "request_timeout": seconds}, body=body
            )
        except (driver.OpenSearchException, OSError) as error:
            self._note(error, seconds)
            raise _translated(error) from error
        except BaseException:
            self.breaker.withdrawn()
            raise
        self.breaker.answered()
        if not isinstance(answer, dict):
            raise _no_opensearch()
        return answer

    async def close(self) -> None:
        """Close this loop's connections; those of loops that are gone went with them."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is None:
            return
        # The driver closes the nodes that it asks now, and forgets those that it leaves alone for a while.
        pool = client.transport.connection_pool
        for connection in getattr(pool, "orig_connections", ()):
            await connection.close()
        await client.close()

    def _client(self) -> AsyncOpenSearch:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = _connected(self._settings)
        return client

    def _note(self, error: Exception, seconds: float) -> None:
        if isinstance(error, driver.ConnectionTimeout) and seconds < _FAIR_SECONDS:
            self.breaker.withdrawn()
        elif isinstance(error, driver.ConnectionError | OSError) or _status(error) in _OVERLOADED:
            self.breaker.lost()
        else:
            self.breaker.answered()


def check_answer(answer: Mapping[str, Any]) -> None:
    """Raise StoreUnavailable for one answer of several that holds an error, or that is not whole."""
    with reading():
        if "error" in answer:
            raise _by_status(int(answer["status"]), str(answer["error"]["type"]))
        if answer.get("timed_out") or answer["_shards"]["failed"]:
            raise StoreUnavailable("OpenSearch answered from a part of the index only.")


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Read an answer in here: one that is not of OpenSearch's form raises StoreUnavailable."""
    try:
        yield
    except _FORM_ERRORS as error:
        raise _no_opensearch() from error


def _connected(settings: OpenSearchSettings) -> AsyncOpenSearch:
    options: dict[str, Any] = {}
    if any(url.lower().startswith("https:") for url in settings.urls):
        try:
            options["ssl_context"] = ssl.create_default_context(cafile=settings.ca_file)
        except OSError:
            raise StoreUnavailable(
                "The file that POIMEN_OPENSEARCH_CA names cannot be read as certificates.",
                retry_after_seconds=_SETTINGS_RETRY_SECONDS,
            ) from None
    if settings.user is not None:
        options["http_auth"] = (settings.user, settings.password or "")
    return AsyncOpenSearch(
        hosts=list(settings.urls),
        pool_maxsize=settings.pool_size,
        # Whoever called asks again, and knows when; the driver would at once, within the same deadline.
        max_retries=0,
        # It repeats nothing then, but leaves a silent node alone for a while and asks the others.
        retry_on_timeout=True,
        timeout=settings.request_seconds,
        **options,
    )


def _status(error: Exception) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def _translated(error: Exception) -> StoreUnavailable:
    if isinstance(error, driver.ConnectionTimeout):
        return StoreUnavailable("OpenSearch did not answer in time.")
    if isinstance(error, driver.ConnectionError):
        if isinstance(error, driver.SSLError) or isinstance(error.info, ssl.SSLError):
            return StoreUnavailable(
                "OpenSearch's certificate is not trusted; POIMEN_OPENSEARCH_CA names the file of its authority.",
                retry_after_seconds=_SETTINGS_RETRY_SECONDS,
            )
        return StoreUnavailable("OpenSearch cannot be reached.")
    if isinstance(error, driver.TransportError) and (status := _status(error)) is not None:
        return _by_status(status, str(error.error))
    if isinstance(error, OSError):
        return StoreUnavailable("OpenSearch cannot be reached.")
    return _no_opensearch()


def _no_opensearch() -> StoreUnavailable:
    return StoreUnavailable(
        "What answers at the address of OpenSearch is not OpenSearch.", retry_after_seconds=_SETTINGS_RETRY_SECONDS
    )


def _by_status(status: int, kind: str) -> StoreUnavailable:
    named = safe_name(kind) or f"HTTP {status}"
    if status == 401:
        return StoreUnavailable(
            "OpenSearch does not accept the user or the password; they are POIMEN_OPENSEARCH_USER and "
            "POIMEN_OPENSEARCH_PASSWORD.",
            retry_after_seconds=_SETTINGS_RETRY_SECONDS,
        )
    if kind == _BLOCKED:
        return StoreUnavailable(f"OpenSearch takes no writes now ({named}), perhaps because its disk is full.")
    if status == 403:
        return StoreUnavailable(
            "OpenSearch does not let this user do that; it needs to manage, read and write indices poimen-*.",
            retry_after_seconds=_SETTINGS_RETRY_SECONDS,
        )
    if kind == _GONE:
        return IndexGone("An index of OpenSearch is gone.")
    if kind == _EXISTS:
        return AlreadyThere("An index of OpenSearch is there already.")
    if status == _TOO_LARGE:
        return RequestTooLarge("A request has more bytes than OpenSearch, or what is in front of it, takes.")
    if status in _OVERLOADED or status >= 500:
        return StoreUnavailable(f"OpenSearch could not do it now (HTTP {status}).")
    # Its own refusals, and the pages of what stands in its place: a proxy, a port that expects TLS.
    return RequestRefused(
        f"OpenSearch, or what answers in its place, refused a request ({named}).",
        retry_after_seconds=_SETTINGS_RETRY_SECONDS,
    )
