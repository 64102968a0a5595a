"""Cut text from outside to what a workflow's history may carry, measured as the JSON it becomes. Pure."""

import json
from bisect import bisect_right
from collections.abc import Callable

HEAD_BYTES = 2 * 1024
TAIL_BYTES = 4 * 1024
# Bytes of head and tail: of what an attempt did, of what verified it, of what judged it or stands beside a report, and
# of what nobody reads from the history.
WHOLE = (HEAD_BYTES, TAIL_BYTES)
HALF = (HEAD_BYTES // 2, TAIL_BYTES // 2)
THIRD = (512, 1536)
BRIEF = (256, 256)
_LEFT_OUT = "\n… {} characters left out …\n"
# What the line about the cut itself takes, with a count of up to ten digits.
_GAP_BYTES = 60


def encoded_size(text: str) -> int:
    """Return the bytes the text takes as JSON in ASCII, which is the largest any converter makes of it."""
    return len(json.dumps(text))


def cut_head(text: str, limit: int) -> str:
    """Return the longest beginning that takes at most ``limit`` bytes as JSON."""
    if len(text) <= limit and encoded_size(text) <= limit:
        return text
    return text[: _longest(text, limit, lambda size: text[:size])]


def cut_tail(text: str, limit: int) -> str:
    """Return the longest end that takes at most ``limit`` bytes as JSON."""
    if len(text) <= limit and encoded_size(text) <= limit:
        return text
    return text[len(text) - _longest(text, limit, lambda size: text[len(text) - size :]) :]


def both_ends(text: str, room: tuple[int, int] = WHOLE) -> str:
    """Return the text, or its beginning and end within ``room`` as JSON, with a line that says what is left out."""
    head_bytes, tail_bytes = room
    if len(text) <= sum(room) and encoded_size(text) <= sum(room):
        return text
    head, tail = cut_head(text, head_bytes - _GAP_BYTES), cut_tail(text, tail_bytes)
    return f"{head}{_LEFT_OUT.format(len(text) - len(head) - len(tail))}{tail}"


def _longest(text: str, limit: int, part: Callable[[int], str]) -> int:
    most = min(len(text), limit)
    return bisect_right(range(1, most + 1), limit, key=lambda size: encoded_size(part(size)))
