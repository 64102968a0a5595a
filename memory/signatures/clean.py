"""From raw output to the lines that can name a failure: bounded, uncoloured, without what carried it."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

HEAD_CHARACTERS = 16 * 1024
TAIL_CHARACTERS = 48 * 1024
LINE_CHARACTERS = 2000


class Line(NamedTuple):
    """One line of output: its 1-based number in the input, its text, and its text without the indent."""

    number: int
    text: str
    words: str

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.words)


_ANSI = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)|[@-Z\\^_=>]|[()][0-9A-B])"
    r"|\x9b[0-?]{0,64}[ -/]{0,8}[@-~]"
)
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060"
    "-\u2064\u2066-\u2069\u2400\ufeff]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_BREAK = re.compile("\r\n?|[\x85\u2028\u2029]")
_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u00a0": " "})

_DATE = r"\d{4}[-/]\d\d[-/]\d\d"
_CLOCK = r"\d{1,2}:\d\d:\d\d(?:[.,:]\d{1,9})?"
_ZONE = r"(?: ?(?:Z|UTC|GMT|CET|CEST|[A-Z]{1,2}ST|[A-Z]{1,2}DT|[+-]\d\d:?\d\d)\b)?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_STAMP = (
    rf"(?:{_DATE}[T ]{_CLOCK}{_ZONE}|{_CLOCK}(?: ?[AP]M\b)?"
    rf"|(?:\w{{3}},? )?{_MONTH} {{1,2}}\d{{1,2}} {_CLOCK}(?: \d{{4}})?|{_DATE})"
)

# Each alternative is anchored at the line's start and bounded, so that a line costs a constant.
_PREFIX = re.compile(
    rf"\s{{0,8}}\[?{_STAMP}\]?(?:\s[|-](?=\s+[A-Z]{{4,8}}\b))?(?:\s|$)"
    r"|\s{0,8}\[\s{0,6}\d{1,8}\.\d{3,9}\]\s"
    r"|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+\s+\d+ [\w./-]{1,80}:\d+\]\s"
    r"|#\d{1,4} (?:\d{1,6}\.\d{1,4}(?: |$)|(?=ERROR|\[))"
    r"|[DIWEF], \[[^\]\n]{10,60}\]\s{1,3}[A-Z]{4,7} -- [^:\n]{0,60}: "
    r"|\[[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\] "
    r"|##\[(?:error|group|warning|command)\]"
    r"|::(?:error|warning)[^:\n]{0,300}::"
    r"|[A-Za-z][\w.-]{0,60}+ {0,30}+\|(?: |$)"
    r"|\s{0,12}[\u2502\u2503\u2577\u2575\u256d\u2570\u251c\u2514\u23bf\u23ba\u2713\u2716\u27"
    r"17\u2718\u2715\u00d7\u274c\u26a0\u2a2f\u203c\u2500\u25b6\u25b8]{1,4}\s{0,4}"
    r"|(?:Warning|Normal)\s{1,6}\w{1,40}\s{1,6}(?:\d+[dhms]){1,3}(?: \(x\d+ over \w+\))?\s{1"
    r",6}[\w-]{1,40}\s{1,6}"
    r"|(?:remote|stderr|stdout): "
    r"|npm (?:ERR!|error|WARN|verb)(?: |$)"
    r"|\s?ERR_PNPM_(?=\W)"
    r"|\[(?:pid|PID)? ?\d{1,8}\](?::? |$)"
    r"|(?:[\w.-]{1,60}+ )?[\w./-]{1,40}+\[\d{1,8}\]: "
)
_GROUP_MARK = re.compile(r"^\s{0,40}[|+](?:-\+-+ \d+ -+)?\s?")
_MOST_PREFIXES = 4


def _bounded(text: str) -> tuple[str, int, int]:
    """The text, or its head and tail, with the head's length in lines and how many lines were left out."""
    if len(text) <= HEAD_CHARACTERS + TAIL_CHARACTERS:
        return text, 0, 0
    head, tail = text[:HEAD_CHARACTERS], text[-TAIL_CHARACTERS:]
    # A line cut in two would name a failure that nobody wrote, so the cut falls on line ends where there are any.
    cut = head.rfind("\n")
    head = head[: cut + 1] if cut > 0 else head + "\n"
    start = tail.find("\n")
    tail = tail[start + 1 :] if 0 <= start < len(tail) - 1 else tail
    kept = head.count("\n")
    return head + tail, kept, text.count("\n", 0, len(text) - len(tail)) - kept


def visible(text: str) -> str:
    """Return the text as a terminal shows it: no colours, no control characters, one kind of line end and of quote."""
    if "\x1b" in text or "\x9b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text or not text.isascii():
        text = _BREAK.sub("\n", text)
    if not text.replace("\n", "").replace("\t", "").isprintable():
        text = _UNSEEN.sub("", text)
    if not text.isascii():
        text = unicodedata.normalize("NFC", _SURROGATE.sub("\ufffd", text)).translate(_QUOTES)
    return text


def without_prefix(text: str) -> str:
    """Return the line without time stamps, container names, process ids and marks before it; its indent stays."""
    words = text.lstrip()
    found = _PREFIX.match(words)
    if found is None:
        return text
    indent = text[: len(text) - len(words)]
    for _ in range(_MOST_PREFIXES):
        if found is None or found.end() == 0:
            break
        words = words[found.end() :]
        found = _PREFIX.match(words)
    return indent + words


def _clipped(raw: str) -> str:
    return f"{raw[: LINE_CHARACTERS * 3 // 4]} {raw[-LINE_CHARACTERS // 4 :]}"


def clean(text: str) -> list[Line]:
    """Return the non-empty lines of a bounded window of the text."""
    window, kept, left_out = _bounded(text)
    grouped = "Exception Group Traceback" in window
    lines: list[Line] = []
    for place, raw in enumerate(visible(window).split("\n"), 1):
        line = without_prefix((raw if len(raw) <= LINE_CHARACTERS else _clipped(raw)).rstrip())
        line = _GROUP_MARK.sub("", line) if grouped else line
        words = line.lstrip()
        if words:
            lines.append(Line(place + (left_out if kept and place > kept else 0), line, words))
    return lines
