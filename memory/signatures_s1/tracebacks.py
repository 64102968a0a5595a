"""Python tracebacks: the exception that a chain of them comes down to."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.signatures_s1.clean import Line
from memory.signatures_s1.continued import continued
from memory.signatures_s1.finding import Finding, Rank

_FRAME = re.compile(r'File "[^"]{1,400}", line \d+(?:, in (?P<function>.{1,200}))?')
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]{0,200}(?:: .*|:)?$")
_CAUSE = "The above exception was the direct cause of the following exception"
_CONTEXT = "During handling of the above exception, another exception occurred"
_FURTHER_LINES = 6
# Raised to steer a program, not to say what is wrong.
_SIGNAL = re.compile(
    r"(?:[\w.]+\.)?(?:CancelledError|StopIteration|StopAsyncIteration|GeneratorExit"
    r"|KeyboardInterrupt)\b"
)
# A comparison of values names nothing: the test it stands in does.
_COMPARED = re.compile(r"AssertionError(?:: [^A-Za-z]*(?:(?:not|is|in|None|True|False)\b[^A-Za-z]*){0,6})?$")
_TYPE = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*: \S")


def _own_function(function: str | None) -> str:
    name = (function or "").strip()
    return "" if name.startswith("<") else name


def _exception_after(lines: Sequence[Line], start: int, indent: int) -> int | None:
    """The place of the exception line that closes the frames ending at `start`, if the text still has it."""
    for place in range(start, min(start + _FURTHER_LINES, len(lines))):
        line = lines[place]
        if _FRAME.match(line.words):
            return None
        # Source and carets are indented deeper than their frame; the exception stands at the header's indent.
        if line.indent < max(indent, 1) and _EXCEPTION.match(line.words):
            return place
    return None


def _exceptions(lines: Sequence[Line]) -> list[tuple[int, str]]:
    """Every (place of an exception line, innermost function before it), in order."""
    found: list[tuple[int, str]] = []
    test = ""
    for place, line in enumerate(lines):
        frame = _FRAME.match(line.words)
        if frame is None:
            continue
        end = _exception_after(lines, place + 1, line.indent)
        function = _own_function(frame["function"])
        test = function if function.startswith("test") else test
        if end is not None and (not found or found[-1][0] != end):
            found.append((end, test or function))
            test = ""
    return found


def _root(lines: Sequence[Line], found: list[tuple[int, str]]) -> tuple[int, str]:
    """The last exception, or the one it was raised from by `raise … from`."""
    at = len(found) - 1
    while at > 0:
        between = lines[found[at - 1][0] + 1 : found[at][0]]
        if not any(line.words.startswith(_CAUSE) for line in between) or _SIGNAL.match(lines[found[at - 1][0]].words):
            break
        at -= 1
    return found[at]


def _sub_exception(lines: Sequence[Line], found: list[tuple[int, str]]) -> tuple[int, str] | None:
    """The first exception inside a group: the group itself names nothing."""
    for place, _ in found:
        if not re.match(r"(?:Base)?ExceptionGroup: ", lines[place].words):
            continue
        for below in range(place + 1, len(lines)):
            if _TYPE.match(lines[below].words) and "ExceptionGroup: " not in lines[below].words:
                return below, ""
    return None


def find_python(lines: Sequence[Line], _text: str) -> Finding | None:
    """Find the exception of a Python traceback, whole or cut off above."""
    found = _exceptions(lines)
    if not found:
        return None
    place, function = _sub_exception(lines, found) or _root(lines, found)
    words = continued(lines, place)
    bare = ":" not in words or words.endswith(":") or _COMPARED.match(words) is not None
    added = (("function", function),) if bare and function else ()
    return Finding(Rank.TRACEBACK, place, words, "python_exception", added)
