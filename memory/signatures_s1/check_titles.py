"""The title of the test a bare comparison of values stands in: without it, one failed check is like any other."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.signatures_s1.clean import Line

_COMPARES = re.compile(
    r"(?i)(?:\w*(?:error|exception): )?"
    r"(?:expected:? .{0,120}?(?:but (?:was|got)|to (?:be|equal|eql|match|have|deep)|, got|, actual)\b"
    r"|failed asserting that"
    r"|assert\.\w+\(\) failure)"
)
_NUMBERED = re.compile(r"\d+\) (?P<name>\S.{0,200})$")
_FAILED = re.compile(
    r"(?:Failed|FAIL(?:ED)?:?) +(?P<name>[\w.:$]{3,200})(?: \[.{1,40}\])?$"
    r"|(?P<nested>[\w.$]{1,120} > .{1,120}?) FAILED$"
)
_LINES_BEFORE = 6
_TITLE_LINES = 3


def title_of(lines: Sequence[Line], place: int, words: str) -> tuple[tuple[str, str], ...]:
    """Return the slot that names the test, where the words only compare values and a title stands above them."""
    if not _COMPARES.match(words):
        return ()
    for at in range(place - 1, max(-1, place - 1 - _LINES_BEFORE), -1):
        failed = _FAILED.match(lines[at].words)
        if failed:
            return (("test", failed["name"] or failed["nested"]),)
        if _NUMBERED.match(lines[at].words):
            title = " ".join(line.words for line in lines[at : min(place, at + _TITLE_LINES)])
            return (("test", title.split(") ", 1)[1]),)
    return ()
