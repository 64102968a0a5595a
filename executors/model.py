"""Ask a named chat model over the OpenAI-compatible HTTP interface."""

import asyncio
import ssl
import time
from functools import cache
from typing import Any

import httpx

from executors.attempt_folder import attempt_folder
from executors.blobs import tenant_store
from executors.excerpts import BothEnds
from executors.model_answer import Answer, describe_failure, read_answer, retry_after_seconds
from executors.refusal import named
from executors.settings import ExecutorSettings, ModelEndpoint
from poimen.contracts.execution import ModelResult, OutputReference, RunModel
from poimen.contracts.problems import quoted
from poimen.excerpts import THIRD, WHOLE
from poimen.render import fill, tokens

MOST_BODY_BYTES = 16 * 1024 * 1024


async def run_model(request: RunModel, settings: ExecutorSettings) -> ModelResult:
    """Send the prompt and return the answer with its tokens; whatever goes wrong is a result with a reason.

    `text` holds both ends of a long answer; `output` names the whole one.
    """
    endpoint = settings.models.get(request.model)
    if endpoint is None:
        known = quoted(sorted(settings.models)) or "none"
        detail = f"{named('the model', request.model)} is not configured on the executor; configured: {known}"
        return ModelResult(end="not_configured", detail=detail)
    started = time.monotonic()
    # Without a context the text is material, as a judge's is, and names no placeholders.
    prompt = request.prompt if request.context is None else fill(request.prompt, request.context)
    limit = min(request.timeout_seconds, endpoint.timeout)
    try:
        async with asyncio.timeout(limit):
            result = await _ask(request, prompt, endpoint, settings)
    except (TimeoutError, httpx.TimeoutException):
        result = ModelResult(end="timed_out", detail=f"no complete answer within {limit:g} s")
    except _NoProxy:
        result = ModelResult(end="not_configured", detail="the model's proxy is not one the executor can speak to")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        result = ModelResult(end="unavailable", detail=_transport_failure(error))
    except UnicodeError:
        result = ModelResult(
            end="refused", detail="the key or a header of the model holds characters HTTP does not take"
        )
    return result.model_copy(update={"seconds": round(time.monotonic() - started, 3)})


@cache
def _tls() -> ssl.SSLContext:
    # Reading the certificates takes longer than many a request.
    return httpx.create_ssl_context(trust_env=False)


class _NoProxy(Exception):
    """A proxy that no client can be made for; the error of the client names it, and with it its password."""


def _client(endpoint: ModelEndpoint) -> httpx.AsyncClient:
    try:
        # trust_env stays off: proxies and certificates of the worker's environment are no setting of the executor.
        return httpx.AsyncClient(timeout=None, trust_env=False, proxy=endpoint.proxy, verify=_tls())  # noqa: S113  because the whole exchange has one time-out outside
    except (ImportError, ValueError, httpx.InvalidURL):
        raise _NoProxy from None


async def _ask(request: RunModel, prompt: str, endpoint: ModelEndpoint, settings: ExecutorSettings) -> ModelResult:
    client = _client(endpoint)
    url = f"{endpoint.base_url.rstrip('/')}/chat/completions"
    async with (
        client,
        client.stream("POST", url, json=_body(request, prompt, endpoint), headers=_headers(endpoint)) as response,
    ):
        body = await _read_bounded(response)
    if body is None:
        detail = f"the answer is larger than {MOST_BODY_BYTES:,} bytes"
        return ModelResult(end="refused", status=response.status_code, detail=detail)
    if response.status_code != httpx.codes.OK:
        return _failure(response, body, endpoint)
    answer = read_answer(body)
    if answer.problem:
        return _without_text(answer)
    return await asyncio.to_thread(_result, answer, request, prompt, settings)


def _body(request: RunModel, prompt: str, endpoint: ModelEndpoint) -> dict[str, Any]:
    system = [{"role": "system", "content": request.system}] if request.system else []
    body: dict[str, Any] = {
        "model": endpoint.model,
        "messages": [*system, {"role": "user", "content": prompt}],
        "stream": False,
    }
    limits = [limit for limit in (request.max_tokens, endpoint.max_tokens) if limit is not None]
    if limits:
        body["max_tokens"] = min(limits)
    return body


def _headers(endpoint: ModelEndpoint) -> dict[str, str]:
    # Compressed bodies would pass the size limit and unfold behind it.
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if endpoint.api_key:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    return headers | dict(endpoint.headers)


async def _read_bounded(response: httpx.Response) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > MOST_BODY_BYTES:
            return None
        parts.append(part)
    return b"".join(parts)


def _failure(response: httpx.Response, body: bytes, endpoint: ModelEndpoint) -> ModelResult:
    secrets = [endpoint.api_key or "", *endpoint.headers.values()]
    end, detail = describe_failure(response.status_code, body, secrets)
    wait = retry_after_seconds(response.headers) if end == "unavailable" else None
    return ModelResult(end=end, status=response.status_code, detail=detail, retry_after_seconds=wait)


def _without_text(answer: Answer) -> ModelResult:
    return ModelResult(
        end="refused" if answer.refused else "unavailable",
        status=200,
        detail=answer.problem,
        prompt_tokens=answer.prompt_tokens or 0,
        completion_tokens=answer.completion_tokens or 0,
    )


def _result(answer: Answer, request: RunModel, prompt: str, settings: ExecutorSettings) -> ModelResult:
    warnings = list(answer.warnings)
    data = answer.text.encode("utf-8", "replace")
    ends = BothEnds()
    ends.feed(data)
    if answer.prompt_tokens is None or answer.completion_tokens is None:
        warnings.append("tokens are estimated, because the endpoint reported no usage")
    asked = tokens(prompt) + tokens(request.system or "")
    room = THIRD if request.purpose == "judge" else WHOLE
    return ModelResult(
        end="answered",
        status=200,
        text=ends.excerpt(*room).text(ends.size),
        output=_keep(data, request.tenant, settings, warnings),
        prompt_tokens=asked if answer.prompt_tokens is None else answer.prompt_tokens,
        completion_tokens=tokens(answer.text) if answer.completion_tokens is None else answer.completion_tokens,
        warnings=tuple(warnings),
    )


def _keep(data: bytes, tenant: str | None, settings: ExecutorSettings, warnings: list[str]) -> OutputReference | None:
    if not data:
        return None
    store = tenant_store(settings, tenant)
    try:
        with attempt_folder(settings.state_dir) as folder:
            return store.keep(data, folder.output)
    except OSError as error:
        warnings.append(f"the whole answer is not in the store: {error.strerror or 'it could not be written'}")
        return None


def _transport_failure(error: Exception) -> str:
    # The library's own text may hold the URL, and a URL may hold credentials.
    match error:
        case httpx.ConnectError():
            return "the model's endpoint could not be reached"
        case httpx.RemoteProtocolError() | httpx.ReadError():
            return "the model's endpoint broke the connection off"
        case httpx.InvalidURL() | httpx.UnsupportedProtocol():
            return "the model's base_url is not a URL"
        case _:
            return f"the exchange with the model's endpoint failed ({type(error).__name__})"
