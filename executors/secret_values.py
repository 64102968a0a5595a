"""Resolve ``env:NAME`` references against the allow-list and take the resolved values out of what leaves."""

import json
import re
from collections.abc import Iterable, Mapping

from executors.refusal import NotAllowed
from executors.settings import ExecutorSettings

MASKED = "[masked]"
_SHORTEST = 4  # characters: shorter values stand in ordinary text too, and would tear it up
_FIT_FOR_HTML = {ord(character): f"\\u{ord(character):04x}" for character in "<>&'"}
_SAFE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def resolve(env: Mapping[str, str], settings: ExecutorSettings) -> tuple[dict[str, str], frozenset[str]]:
    """Return the step's variables with their values, and the values that came from the executor.

    Raises NotAllowed for a name that is not on the allow-list or has no value.
    """
    resolved: dict[str, str] = {}
    secret: set[str] = set()
    for name, value in env.items():
        if value.startswith("env:"):
            resolved[name] = variable(value.removeprefix("env:"), settings)
            secret.add(resolved[name])
        else:
            resolved[name] = value
    return resolved, frozenset(secret)


def variable(name: str, settings: ExecutorSettings) -> str:
    """Return the value of an allowed variable, or raise NotAllowed."""
    shown = name if _SAFE_NAME.fullmatch(name) else "of that name"
    if name not in settings.allowed_variables:
        raise NotAllowed(f"the variable {shown} is not on the executor's allow-list")
    if name not in settings.variables:
        raise NotAllowed(f"the variable {shown} is allowed but has no value on the executor")
    return settings.variables[name]


class Mask:
    """Replaces exact values in a stream of bytes, also where a value spans two pieces."""

    def __init__(self, values: Iterable[str]) -> None:
        self._values = _forms(values)
        self._overlap = max((len(value) for value in self._values), default=1) - 1
        # Longest first: a value that begins with another one must go as a whole.
        self._pattern = re.compile(b"|".join(re.escape(value) for value in self._values))
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what can be told apart from a value by now; the rest waits for the next piece."""
        if not self._values:
            return data
        text = self._held + data
        limit = max(0, len(text) - self._overlap)
        clean, end = self._replace(text, limit)
        self._held = text[end:]
        return clean

    def finish(self) -> bytes:
        """Return what was waiting."""
        clean, _ = self._replace(self._held, len(self._held))
        self._held = b""
        return clean

    def text(self, text: str) -> str:
        """Mask one whole text."""
        data = text.encode("utf-8", "surrogatepass")
        if not any(value in data for value in self._values):
            return text
        return self._pattern.sub(MASKED.encode(), data).decode("utf-8", "surrogatepass")

    def _replace(self, text: bytes, limit: int) -> tuple[bytes, int]:
        if not any(value in text for value in self._values):
            return text[:limit], limit
        parts: list[bytes] = []
        end = 0
        for match in self._pattern.finditer(text):
            if match.start() >= limit:
                break
            parts += (text[end : match.start()], MASKED.encode())
            end = match.end()
        parts.append(text[end : max(end, limit)])
        return b"".join(parts), max(end, limit)


def _forms(values: Iterable[str]) -> list[bytes]:
    forms: set[bytes] = set()
    for value in values:
        if len(value) >= _SHORTEST:
            # Programs print what they have been given as JSON too, and some escape more of it than JSON asks for.
            written = [value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]]
            written += [form.replace("/", r"\/") for form in written[1:]]
            written += [form.translate(_FIT_FOR_HTML) for form in written[1:]]
            forms |= {form.encode("utf-8", "surrogateescape") for form in written}
    return sorted(forms, key=len, reverse=True)
