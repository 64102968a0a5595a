"""The wait a failing service itself asked for."""

from __future__ import annotations

import re

_UNIT_SECONDS = {"ms": 0.001, "milliseconds": 0.001, "millisecond": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_UNIT = r"(?:milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h)\b"
_AMOUNT = r"\d{1,9}(?:\.\d{1,9})?"
_ASKED = re.compile(
    r"(?i)(?:"
    rf"retry[-_ ]?after(?:[-_](?P<ms>ms))?(?:[-_]?seconds?)?[\"']?\s{{0,3}}[:=]?\s{{0,3}}[\"']?"
    rf"(?P<a>{_AMOUNT})\s?(?P<ua>{_UNIT})?"
    rf"|retrydelay[\"']?\s{{0,3}}[:=]\s{{0,3}}[\"']?(?P<b>{_AMOUNT})(?P<ub>{_UNIT})?"
    r"|(?:try again|retry(?:ing)?|wait|available|resets?)(?: again)?(?: in| after| for| at least| about){1,3} (?:about )?"
    rf"(?P<c>{_AMOUNT})\s?(?P<uc>{_UNIT})(?:\s?(?P<d>{_AMOUNT})\s?(?P<ud>{_UNIT}))?"
    rf"|(?:please )?wait (?:for )?(?P<e>{_AMOUNT})\s?(?P<ue>{_UNIT}))"
)


def _seconds(amount: str, unit: str | None) -> float:
    name = (unit or "s").lower()
    if name not in _UNIT_SECONDS:
        name = name[0]
    return float(amount) * _UNIT_SECONDS[name]


def retry_after_seconds(text: str) -> float | None:
    """Return the wait in seconds that the text asks for, the first one named, or None."""
    found = _ASKED.search(text)
    if found is None:
        return None
    for amount, unit in (("a", "ua"), ("b", "ub"), ("c", "uc"), ("e", "ue")):
        if found[amount] is not None:
            total = _seconds(found[amount], "ms" if amount == "a" and found["ms"] else found[unit])
            if amount == "c" and found["d"]:
                total += _seconds(found["d"], found["ud"])
            return round(total, 6)
    return None
