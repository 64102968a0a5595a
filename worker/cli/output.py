"""How commands print: one JSON value, or plain columns."""

import json
import re
import textwrap
from collections.abc import Sequence
from typing import Any, Final

WIDTH: Final = 100
# What a terminal takes for a command: colours and moves, and strings such as a title, which end with BEL or ST; one
# that was cut short ends with its line.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]"
)
# What stands in a title for what differs each time.
_MASK = re.compile("<(?:number|path|id|value|url|uuid|address|email|time|digest|hex)>")


def print_json(value: Any) -> None:
    """Print one JSON value on one line, at once."""
    print(json.dumps(value, ensure_ascii=False, default=str), flush=True)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Return rows under their heads in columns; the columns named in `right` are numbers. The last is not padded."""
    lines = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join(_line(line, widths, right) for line in lines)


def _line(line: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> str:
    cells = [
        cell.rjust(width) if column in right else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def plain(text: str) -> str:
    """Return text as a terminal may show it: no control sequences, and an ellipsis for what a signature masked."""
    lines = _MASK.sub("…", _SEQUENCE.sub("", text)).split("\n")
    return "\n".join("".join(c if c.isprintable() else " " for c in line) for line in lines)


def one_line(text: str, longest: int = 80) -> str:
    """Return text without line breaks, control characters and what they would begin, cut to a length."""
    text = _MASK.sub("…", _SEQUENCE.sub("", text))
    clean = "".join(character if character.isprintable() else " " for character in " ".join(text.split()))
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


def wrapped(text: str) -> str:
    """Return text in lines of at most 100 columns, those after the first indented."""
    return textwrap.fill(one_line(text, 1_000), WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def ago(seconds: float) -> str:
    """Return an age in words: "20 s", "5 min", "2 h", "3 d"."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"
