"""Error bodies: JSON or its look-alikes in Python and JavaScript, logfmt records, and HTTP status lines."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.signatures.clean import Line
from memory.signatures.finding import Finding, Rank

_FIELD = re.compile(
    r"""(?<![@\w-])["']?(?P<name>status_?code|statusCode|status|httpStatus|error_code|errorCode|errcode|code|type|__type|error_type"""
    r"""|errorType|reason|error|message|Message|msg|error_description|detail|errorMessage|title|content|Code)["']?\s{0,4}[:=]\s{0,4}"""
    r"""(?:"(?P<double>(?:[^"\\\n]|\\.){0,1500})"|'(?P<single>(?:[^'\\\n]|\\.|'(?=\w)){0,1500})'|(?P<bare>-?\d{1,9}\b))"""
)
# Which field of a request is wrong: `"field": "title"`, `"param": "amount"`, `"loc": ["body", "amount"]`.
_WHERE = re.compile(
    r"""["'](?:field|param|parameter|property|loc|path|target|pointer)["']\s{0,4}:\s{0,4}"""
    r"""(?:["'](?P<one>[A-Za-z_][\w.\[\]-]{0,80})["']|\[(?P<list>[^\[\]{}]{1,200})\])"""
)
_STEP = re.compile(r"""["']([A-Za-z_][\w.-]{0,80})["']""")
_OPEN = re.compile(r"[{\[]\s{0,4}[\"'}{]")
_KIND_OF = {
    "content": "content",
    "status_code": "status", "statuscode": "status", "status": "status", "httpstatus": "status",
    "error_code": "code", "errorcode": "code", "errcode": "code", "code": "code", "__type": "type",
    "type": "type", "error_type": "type", "errortype": "type", "reason": "reason", "title": "message",
    (
        "error"
    ): "error", "message": "message", "msg": "message", "error_description": "message", "detail": "message",
    "errormessage": "message",
}  # fmt: skip
_STATUS_LINE = re.compile(r"(?:< )?HTTP/\d(?:\.\d)? (?P<status>[45]\d\d)\b ?(?P<reason>.{0,60})$")
_TAG = re.compile(r"<(?P<tag>Code|Message|faultcode|faultstring|title)>(?P<words>[^<]{1,500})</")
_LOGFMT = re.compile(r"\b(?:err|error)=(?:\"(?P<quoted>(?:[^\"\\]|\\.){1,1500})\"|(?P<bare>\S{1,300}))")
_LOGFMT_MESSAGE = re.compile(r"\bmsg=(?:\"(?P<quoted>(?:[^\"\\]|\\.){1,1500})\"|(?P<bare>\S{1,300}))")
_IS_ERROR = re.compile(r"[\"']?is_?[eE]rror[\"']?\s{0,4}:\s{0,4}[tT]rue")
_EMPTY_TYPES = frozenset({"error", "object", "about:blank", "string", "text", "tool_result"})
_ORDER = ("status", "code", "type", "reason", "error", "message")


def fields(text: str) -> dict[str, str]:
    """Return the first value of each field that names a failure in a JSON-like body."""
    found: dict[str, str] = {}
    for match in _FIELD.finditer(text):
        kind = _KIND_OF[match["name"].lower()]
        value = match["double"] or match["single"] or match["bare"]
        if value is None or not value.strip() or (kind == "type" and value in _EMPTY_TYPES):
            continue
        if kind == "status" and not value.isdigit():
            kind = "type"
        if kind == "code" and value.isdigit() and 400 <= int(value) <= 599:
            kind = "status"
        found.setdefault(kind, value.strip())
    return found


def _where(body: str) -> str:
    """The first field that the body calls wrong, its steps joined by dots; "" where it calls none."""
    found = _WHERE.search(body)
    if found is None:
        return ""
    return found["one"] or ".".join(_STEP.findall(found["list"]))


def told(body: str) -> str | None:
    """Return one line for a JSON-like body that carries an error, or None where it carries none."""
    found = fields(body)
    content = found.pop("content", None)
    if content is not None and _IS_ERROR.search(body):
        return content
    if found.keys().isdisjoint({"message", "error", "code", "reason"}):
        return None
    if "message" in found:
        found.pop("error", None)
    if found.get("status", "").isdigit():
        found["status"] = f"HTTP {found['status']}"
    parts = list(dict.fromkeys(found[name] for name in _ORDER if name in found))
    where = _where(body)
    if where and not any(where.rsplit(".", 1)[-1] in part for part in parts):
        parts.append(f"field '{where}'")
    return " ".join(parts).replace("\\n", " ").replace('\\"', "'")


def find_body(lines: Sequence[Line], text: str) -> Finding | None:
    """Find an error body that stands on lines of its own."""
    if "{" not in text:
        return None
    for place, line in enumerate(lines):
        if not line.words.startswith(("{", "[{", "data: {")):
            continue
        body = line.words if len(line.words) > 3 else ("\n").join(other.words for other in lines[place : place + 40])
        words = told(body)
        if words:
            return Finding(Rank.BODY, place, words, "error_body")
    return None


def find_markup(lines: Sequence[Line], text: str) -> Finding | None:
    """Find the code and message of an XML error, or the title of an HTML error page."""
    said = {found["tag"].lower(): found["words"].strip() for found in reversed(list(_TAG.finditer(text)))}
    words = (" ").join(said[tag] for tag in ("code", "faultcode", "message", "faultstring") if tag in said) or said.get(
        "title"
    )
    if not words:
        return None
    place = next(place for place, line in enumerate(lines) if "<" in line.words)
    return Finding(Rank.BODY, place, words, "error_body")


def find_record(lines: Sequence[Line], text: str) -> Finding | None:
    """Find a logfmt record that carries an error."""
    if "=" not in text:
        return None
    for place, line in enumerate(lines):
        if "level=" not in line.words and "msg=" not in line.words:
            continue
        error, message = _LOGFMT.search(line.words), _LOGFMT_MESSAGE.search(line.words)
        bad = re.search(r"\blevel=\"?(?:error|fatal|panic|critical)", line.words)
        if error or (bad and message):
            words = " ".join(m["quoted"] or m["bare"] for m in (message, error) if m)
            return Finding(Rank.BODY, place, words, "log_record")
    return None


def find_status(lines: Sequence[Line], text: str) -> Finding | None:
    """Find an HTTP status line of a failed request, with the body's own words where it has them."""
    if "HTTP/" not in text:
        return None
    for place, line in enumerate(lines):
        found = _STATUS_LINE.match(line.words)
        if found:
            body = find_body(lines[place:], text)
            words = body.words if body else found["reason"]
            words = words.removeprefix(f"HTTP {found['status']} ")
            return Finding(Rank.BODY, place, f"HTTP {found['status']} {words}".strip(), "error_body")
    return None


def with_body_told(words: str) -> str:
    """Return the line with a JSON-like body inside it replaced by what the body says."""
    opened = _OPEN.search(words)
    if opened is None:
        return words
    said = told(words[opened.start() :])
    return f"{words[: opened.start()]}{said}" if said else words
