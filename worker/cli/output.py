"""How commands print: one JSON value, or plain columns."""

import json
import textwrap
from collections.abc import Sequence
from typing import Any, Final

WIDTH: Final = 100


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


def one_line(text: str, longest: int = 80) -> str:
    """Return text without line breaks and control characters, cut to a length."""
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
