"""Keep the beginning and the end of an output, small enough for a workflow's history whatever its bytes are."""

import re
from dataclasses import dataclass

from poimen.excerpts import WHOLE, cut_head, cut_tail

# Raw bytes kept for each. More than the bounds, because runs of unreadable bytes shrink to one character.
_FIRST = 8 * 1024
_LAST = 16 * 1024
_BINARY_SHARE = 0.1
# Controls other than tab, line feed, carriage return, backspace, form feed and escape; and undecodable bytes.
_UNREADABLE = re.compile("[\x00-\x07\x0b\x0e-\x1a\x1c-\x1f\x7f\udc80-\udcff]+")
_NULS = re.compile("\0+")


@dataclass(frozen=True)
class Excerpt:
    """Both ends of an output as text; `complete` when nothing lies between them."""

    head: str
    tail: str
    binary: bool
    complete: bool

    def text(self, size: int) -> str:
        """Return both ends as one text that says what was left out of `size` bytes."""
        if self.complete:
            return self.head + self.tail
        return f"{self.head}\n[… the middle of {size:,} bytes left out …]\n{self.tail}"


class BothEnds:
    """Collects a stream and remembers its two ends and its size."""

    def __init__(self) -> None:
        self.size = 0
        self._first = bytearray()
        self._last = bytearray()

    def feed(self, data: bytes) -> None:
        self.size += len(data)
        room = _FIRST - len(self._first)
        self._first += data[:room]
        self._last += data[room:][-_LAST:]
        del self._last[:-_LAST]

    def excerpt(self, head_bytes: int = WHOLE[0], tail_bytes: int = WHOLE[1]) -> Excerpt:
        """Return both ends, each cut to so many bytes of encoded JSON."""
        first, last = bytes(self._first), bytes(self._last)
        whole = self.size <= len(first) + len(last)
        parts = [first + last] if whole else [first, _from_character(last)]
        texts = [part.decode("utf-8", "surrogateescape") for part in parts]
        binary = _is_binary("".join(texts))
        readable = [_readable(text) for text in texts]
        head = _whole_lines_head(readable[0], head_bytes)
        rest = readable[0][len(head) :] if whole else readable[1]
        tail = _whole_lines_tail(rest, tail_bytes)
        return Excerpt(head, tail, binary, complete=whole and tail == rest)


def _whole_lines_head(text: str, limit: int) -> str:
    """Return the longest beginning that fits, up to a line's end if one is near."""
    head = cut_head(text, limit)
    line = head.rfind("\n") + 1
    return head[:line] if len(head) < len(text) and line > len(head) // 2 else head


def _whole_lines_tail(text: str, limit: int) -> str:
    """Return the longest end that fits, from a line's start if one is near."""
    tail = cut_tail(text, limit)
    line = tail.find("\n") + 1
    return tail[line:] if len(tail) < len(text) and 0 < line < len(tail) // 2 else tail


def _from_character(data: bytes) -> bytes:
    # The cut may fall into a UTF-8 sequence: its continuation bytes are no sign of a binary output.
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


def _is_binary(text: str) -> bool:
    unreadable = sum(len(run.group()) for run in _UNREADABLE.finditer(text))
    return unreadable > len(text) * _BINARY_SHARE


def _readable(text: str) -> str:
    return _UNREADABLE.sub(lambda run: "\u2400" if _NULS.fullmatch(run.group()) else "\ufffd", text)
