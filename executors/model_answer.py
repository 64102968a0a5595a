"""Read what a chat endpoint answered: text and tokens, or what kind of failure it is."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from executors.secret_values import Mask
from poimen.excerpts import cut_head

_DETAIL_BYTES = 512
_LONGEST_WAIT = 86_400.0  # seconds; what a service asks for beyond a day is a mistake
_MOST_TOKENS = 10**12
_CONTEXT = re.compile(
    r"context[ _-]?(length|window|size)|maximum context|too many tokens|(prompt|input) is too long"
    r"|exceeds? .{0,40}(token|context)",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"insufficient[_ ]quota|(exceeded|over) .{0,20}quota|billing|credit balance|payment required", re.IGNORECASE
)
_NOT_JSON = "the endpoint's answer is not a JSON object"


@dataclass(frozen=True)
class Answer:
    """A model's answer; `problem` says why there is no text. A count is None where none was reported."""

    text: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    problem: str = ""
    refused: bool = False
    warnings: tuple[str, ...] = ()


def read_answer(body: bytes) -> Answer:
    """Return the first choice's text and the counted tokens."""
    data = _object(body)
    if data is None:
        return Answer(problem=_NOT_JSON)
    usage = _mapping(data.get("usage"))
    prompt_tokens, completion_tokens = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    choices = data.get("choices")
    first = _mapping(choices[0] if isinstance(choices, list) and choices else None)
    message = _mapping(first.get("message"))
    text = _text(message.get("content"))
    reason = first.get("finish_reason")
    problem = "" if text else _why_empty(message, reason)
    warnings = ("the answer ends where its token limit was reached",) if text and reason == "length" else ()
    refused = problem != "" and (bool(_text(message.get("refusal"))) or reason in ("content_filter", "length"))
    return Answer(text, prompt_tokens, completion_tokens, problem, refused, warnings)


def describe_failure(status: int, body: bytes, secrets: Iterable[str]) -> tuple[Literal["refused", "unavailable"], str]:
    """Return whether trying again can help, and a sentence with the endpoint's own words, cut and masked."""
    said = _said(body)
    words = Mask(secrets).text(said)
    tail = f": {cut_head(words, _DETAIL_BYTES)}" if words else ""
    end, what = _kind(status, said)
    return end, f"HTTP {status}, {what}{tail}"


def retry_after_seconds(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the wait a service asks for, in seconds, from a number or an HTTP date; None when it names none."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _bounded(milliseconds / 1000)
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None:
        return _bounded(seconds)
    until = _date(value)
    if until is None:
        return None
    # The service's own clock, where it tells it: the two need not agree.
    since = _date(headers.get("date")) or now or datetime.now(UTC)
    return _bounded((until - since).total_seconds())


def _kind(status: int, said: str) -> tuple[Literal["refused", "unavailable"], str]:
    if status in (401, 403):
        return "refused", "the endpoint refused the key"
    if status == 402 or (status in (403, 429) and _QUOTA.search(said)):
        return "refused", "the account's quota is used up"
    if status in (400, 413, 422) and (status == 413 or _CONTEXT.search(said)):
        return "refused", "the prompt is longer than the model takes"
    if status == 404:
        return "refused", "the endpoint does not know the path or the model"
    if status == 429:
        return "unavailable", "the endpoint asks for fewer requests"
    if status in (408, 409, 425) or status >= 500:
        return "unavailable", "the endpoint is not available"
    return "refused", "the endpoint refused the request"


def _said(body: bytes) -> str:
    data = _object(body)
    if data is None:
        return ""
    error = data.get("error")
    inner = _mapping(error)
    parts = [inner.get("code"), inner.get("type"), inner.get("message"), error, data.get("message")]
    return " ".join(dict.fromkeys(part for part in parts if isinstance(part, str) and part))


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(usage: dict[str, Any], name: str) -> int | None:
    value = usage.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= _MOST_TOKENS else None


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part["text"] for part in map(_mapping, parts) if isinstance(part.get("text"), str))


def _why_empty(message: dict[str, Any], reason: object) -> str:
    if _text(message.get("refusal")):
        return "the model refused to answer"
    if reason == "content_filter":
        return "the endpoint's content filter withheld the answer"
    if reason == "length":
        return "the token limit was reached before the answer began"
    return "the endpoint's answer holds no text"


def _number(value: str | None) -> float | None:
    return float(value) if value is not None and re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value.strip()) else None


def _date(value: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(value or "")
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _bounded(seconds: float) -> float:
    return round(min(max(seconds, 0.0), _LONGEST_WAIT), 3)
