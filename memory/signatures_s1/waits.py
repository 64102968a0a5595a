"""The wait a failing service itself asked for."""

from __future__ import annotations

import re

_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
# Longest first, so that `ms` is not read as minutes; what follows must not be a letter, but may be the next amount.
_UNIT = r"(?:milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h)(?![A-Za-z])"
_AMOUNT = r"\d{1,9}(?:\.\d{1,9})?"
_PARTS = rf"{_AMOUNT}\s?{_UNIT}(?:,?\s?{_AMOUNT}\s?{_UNIT}){{0,2}}"
_ASKED = re.compile(
    r"(?i)(?:"
    rf"retry[-_ ]?after(?:[-_]?(?P<milli>ms))?(?:[-_]?seconds?)?[\"']?\s{{0,3}}[:=]?\s{{0,3}}[\"']?"
    rf"(?:(?P<header_parts>{_PARTS})|(?P<header>{_AMOUNT})(?![\w-]))"
    rf"|retrydelay[\"']?\s{{0,3}}[:=]\s{{0,3}}[\"']?(?P<delay>{_PARTS})"
    r"|(?:try again|retry|wait|available|resets?)(?: again)?(?: in| after| for| at least| about){1,3}"
    rf" (?P<sentence>{_PARTS})"
    rf"|\bwait (?P<plain>{_PARTS}))"
)
_PART = re.compile(rf"(?i)(?P<amount>{_AMOUNT})\s?(?P<unit>{_UNIT})")


def _unit(word: str) -> str:
    word = word.lower()
    return "ms" if word.startswith(("ms", "milli")) else word[0]


def retry_after_seconds(text: str) -> float | None:
    """Return the wait in seconds that the text asks for, the first one named, or None."""
    found = _ASKED.search(text)
    if found is None:
        return None
    if found["header"] is not None:
        return round(float(found["header"]) * (0.001 if found["milli"] else 1.0), 6)
    parts = found["header_parts"] or found["delay"] or found["sentence"] or found["plain"]
    total = sum(float(part["amount"]) * _UNIT_SECONDS[_unit(part["unit"])] for part in _PART.finditer(parts))
    return round(total, 6)
