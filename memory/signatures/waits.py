"""The wait a failing service itself asked for."""

from __future__ import annotations

import re

_UNIT_SECONDS = {"ms": 0.001, "milliseconds": 0.001, "millisecond": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_AMOUNT = r"(?P<{0}>\d{{1,9}}(?:\.\d{{1,9}})?)"
_UNIT = r"(?P<{0}>milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h)\b"
_ASKED = re.compile(
    r"(?i)(?:"
    r"retry[-_ ]?after(?:[-_](?P<ms>ms))?(?:[-_]?seconds?)?[\"']?\s{0,3}[:=]?\s{0,3}[\"']?" + _AMOUNT.format("a") + r"\s?(?:" + _UNIT.format("ua") + r")?"
    r"|retrydelay[\"']?\s{0,3}[:=]\s{0,3}[\"']?" + _AMOUNT.format("b") + r"(?:" + _UNIT.format("ub") + r")?"
    r"|(?:try again|retry(?:ing)?|wait|available|resets?|reset)(?: again)?(?: in| after| for| at least| about){1,3} (?:about )?" + _AMOUNT.format("c") + r"\s?" + _UNIT.format("uc")
    + r"(?:\s?(?P<d>\d{1,4}(?:\.\d{1,6})?)\s?(?P<ud>s|seconds?|m|minutes?)\b)?"
    r"|(?:please )?wait (?:for )?" + _AMOUNT.format("e") + r"\s?" + _UNIT.format("ue") + r")"
)  # fmt: skip


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
