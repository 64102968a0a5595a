"""What a shape returns when it recognises its kind of output."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Rank(IntEnum):
    """How much a finding is to be believed against others in the same text."""

    LAST = 0
    WRAPPER = 10
    WORDS = 30
    LEVEL = 40
    BODY = 50
    TYPED = 55
    TOOL = 70
    TEST = 75
    DIAGNOSTIC = 80
    CRASH = 85
    TRACEBACK = 90
    RUNNER = 95


class Finding(NamedTuple):
    """The words that name a failure: the place of their line in the cleaned lines, and what other lines add."""

    rank: Rank
    place: int
    words: str
    shape: str
    added: tuple[tuple[str, str], ...] = ()
