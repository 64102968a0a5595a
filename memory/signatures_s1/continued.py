"""Lines that only announce or count what the lines below them say."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.signatures_s1.clean import Line

_ANNOUNCED = re.compile(r"(?i)[\w ]{0,20}\b(?:error|failed|failure|fatal)\b[\w ]{0,20}:$")
_COUNTED = re.compile(r"[:.] \d+ (?:\w+ ){0,2}errors? (?:for|in|found)\b")

_FEWEST_WORDS = 3


def continued(lines: Sequence[Line], place: int) -> str:
    """Return the line, with the lines below it where it only announces or counts them."""
    words = lines[place].words
    below = [line.words for line in lines[place + 1 : place + 3]]
    if below and _COUNTED.search(words):
        return " ".join([words, *below])
    if not below or not words.endswith(":") or " " not in words:
        return words
    if below[0].endswith(":"):
        return words
    clause = words[:-1].rsplit(": ", 1)[-1]
    if len(clause.split()) < _FEWEST_WORDS and lines[place + 1].indent <= lines[place].indent:
        return words
    return below[0] if _ANNOUNCED.match(words) else f"{words} {below[0]}"
