"""Replace secrets in text and in structured values by a mark that keeps equal secrets equal."""

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from urllib.parse import quote, quote_plus

from memory.masking.rules import RULES, Rule, is_telling
from memory.masking.shapes import MARK, is_placeholder

T = TypeVar("T")
# A shorter value would be found in words that have nothing to do with it.
_SHORTEST_EXACT = 6
# A mark can bring pieces together that only then look like a secret; more rounds than this were never needed.
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Finding:
    """A secret that was found: the kind its mark names, and where it stood in the text it was found in."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Masked:
    """The text without its secrets, and what was found."""

    text: str
    findings: tuple[Finding, ...] = ()


class Masker:
    """Masks under one deployment's key. The mark is `[REDACTED:kind:h4]`, h4 four hex digits of the secret's HMAC."""

    def __init__(self, key: bytes, secrets: Iterable[str] = ()) -> None:
        """`secrets` are masked wherever they stand, also URL-encoded and as base64; below 6 characters they are not."""
        self._key = key
        forms = {form for secret in secrets if len(secret) >= _SHORTEST_EXACT for form in _forms(secret)}
        ordered = sorted(forms, key=len, reverse=True)
        self._exact = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def mask(self, text: str) -> Masked:
        """Return the text without secrets; masking masked text changes nothing."""
        findings: list[Finding] = []
        for _ in range(_ROUNDS):
            found = _outside_marks(text, _merged(self._found(text)))
            if not found:
                break
            findings.extend(found)
            text = self._replaced(text, found)
        return Masked(text, tuple(findings))

    def mask_json(self, value: T) -> tuple[T, tuple[Finding, ...]]:
        """Return a JSON value without secrets, and what was found in it.

        Text is masked; what a telling name such as `password` holds is masked whole, whatever it looks like, and so
        is what follows a telling flag in a list of arguments. Positions are those in the text found in.
        """
        findings: list[Finding] = []
        return cast(T, self._walk(value, findings)), tuple(findings)

    def _walk(self, value: Any, findings: list[Finding]) -> Any:
        if isinstance(value, str):
            masked = self.mask(value)
            findings.extend(masked.findings)
            return masked.text
        if isinstance(value, dict):
            return {self._walk(name, findings): self._held(name, item, findings) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [
                self._held(before, item, findings)
                for before, item in zip([None, *map(_flag, value)], value, strict=False)
            ]
        return value

    def _held(self, name: Any, value: Any, findings: list[Finding]) -> Any:
        if not (isinstance(name, str) and is_telling(name)):
            return self._walk(value, findings)
        if isinstance(value, list | tuple):
            return [self._held(name, item, findings) for item in value]
        if not isinstance(value, str) or is_placeholder(value):
            return self._walk(value, findings)
        findings.append(Finding("field", 0, len(value)))
        return self._mark("field", value)

    def _found(self, text: str) -> Iterator[tuple[int, Finding]]:
        if self._exact is not None:
            yield from ((-1, Finding("known", *match.span())) for match in self._exact.finditer(text))
        lowered = text.lower()
        for priority, rule in enumerate(RULES):
            if any(needle in lowered for needle in rule.needles):
                yield from ((priority, finding) for finding in _matches(rule, text))

    def _replaced(self, text: str, findings: Iterable[Finding]) -> str:
        parts, end = [], 0
        for finding in findings:
            parts += [text[end : finding.start], self._mark(finding.kind, text[finding.start : finding.end])]
            end = finding.end
        return "".join([*parts, text[end:]])

    def _mark(self, kind: str, secret: str) -> str:
        digest = hmac.new(self._key, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
        return f"[REDACTED:{kind}:{digest[:4]}]"


def _matches(rule: Rule, text: str) -> Iterator[Finding]:
    for match in rule.pattern.finditer(text):
        groups = [name for name, found in match.groupdict().items() if found]
        group = groups[0] if groups else 0
        if rule.confirm is None or rule.confirm(match[group]):
            yield Finding(rule.kind, *match.span(group))


def _merged(found: Iterable[tuple[int, Finding]]) -> list[Finding]:
    """Return the findings in order, overlapping ones as one whose kind is that of the first rule."""
    merged: list[tuple[int, Finding]] = []
    for priority, finding in sorted(found, key=lambda pair: (pair[1].start, -pair[1].end, pair[0])):
        if not merged or finding.start >= merged[-1][1].end:
            merged.append((priority, finding))
            continue
        first, before = merged[-1]
        kind = before.kind if first <= priority else finding.kind
        end = max(before.end, finding.end)
        merged[-1] = (min(first, priority), Finding(kind, before.start, end))
    return [finding for _, finding in merged]


def _outside_marks(text: str, found: list[Finding]) -> list[Finding]:
    """Leave out what lies in a mark, or cuts one: the kind in a mark may read like the name of a secret."""
    marks = [match.span() for match in MARK.finditer(text)]
    return [
        finding
        for finding in found
        if not any(
            start < finding.end and finding.start < end and not (finding.start <= start and end <= finding.end)
            for start, end in marks
        )
    ]


def _flag(argument: object) -> str | None:
    return argument if isinstance(argument, str) and argument.startswith("-") else None


def _forms(secret: str) -> set[str]:
    """Return the ways in which a known value is written: as is, escaped for JSON, in a URL and as base64."""
    data = secret.encode("utf-8", "surrogatepass")
    escaped = secret.replace("\\", "\\\\").replace('"', '\\"')
    return {secret, escaped, quote(data, safe=""), quote_plus(data), *_base64_forms(data)}


def _base64_forms(data: bytes) -> Iterator[str]:
    """Yield what every base64 text that holds the data has in common, at each of the three alignments."""
    for before in range(3):
        padded = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
        # The first and the last characters also depend on the neighbours.
        begin = (before * 8 + 5) // 6
        core = padded[begin : (before + len(data)) * 8 // 6]
        if len(core) >= _SHORTEST_EXACT:
            yield from (core, core.replace("+", "-").replace("/", "_"))
