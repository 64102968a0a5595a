"""Lines that only announce or count what the lines below them say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from memory.signatures.clean import Line

_ANNOUNCED = re.compile(r"(?i)[\w ]{0,20}\b(?:errors?|failed|failure|fatal)\b[\w ]{0,20}:$")
_COUNTED = re.compile(r"[:.] \d+ (?:\w+ ){0,2}errors? (?:for|in|found)\b")

# `error: failed to parse manifest at `a/Cargo.toml``, `Invalid workflow file: ci.yml#L12`: the next line says why.
_FILE_ALONE = re.compile(
    r"(?i:(?:error: )?(?:failed to (?:parse|load|read)|invalid|could not (?:parse|load)"
    r"|cannot (?:parse|load)|error (?:in|parsing))\b"
    r".{0,80}?[\s`'\"][^\s`'\"]{0,300}\.[a-z]{1,10}(?:#L\d+|:\d+(?::\d+)?)?[`'\"]?[.:]?$)"
    r"|(?i:\w{1,30} error in) .{1,120}\([^\s()]{1,300}\.\w{1,10}\)$"
)
# `ERROR in ./src/a.js 3:0-20` above what is wrong there
_PLACE_BEFORE = re.compile(r"(?i)error in \S{1,300}(?: \d+:\d+(?:-\d+(?::\d+)?)?)?$")
_CAUSED = re.compile(r"(?i)(?:caused by|cause):(?:\s+(?P<words>\S.*))?$")
# `==> At key: repos`, `=====> Missing required key: hooks`: the last step says it.
_STEPS = re.compile(r"=+> \S")
_FRAME = re.compile(r"\S{1,300}:\d+:in [`']")
# `2 errors occurred:`, `Error making API request.` above `* permission denied`
_BULLET = re.compile(r"\* (?P<words>\S.*)$")
_BULLET_LINES = 5
_PROBLEM = re.compile(r"Problem \d+$")
_PLACE_ALONE = re.compile(r"(?i).{0,60}\bline \d+,? col(?:umn)? \d+$")
_EXCERPT = re.compile(r"\d{0,8}\s{0,4}\|")

_FEWEST_WORDS = 3
_MOST_CAUSES = 30


def _cause_below(lines: Sequence[Line], place: int) -> str:
    """The last cause listed under a line, "" where none is."""
    cause = ""
    for at in range(place + 1, min(place + _MOST_CAUSES, len(lines))):
        found = _CAUSED.match(lines[at].words)
        if found is None:
            continue
        if found["words"] is None and at + 1 < len(lines):
            cause = lines[at + 1].words
        else:
            cause = _behind_excerpt(lines, at, found["words"] or "")
    return cause


def _behind_excerpt(lines: Sequence[Line], at: int, words: str) -> str:
    """The words, or where they only tell a place, the first line behind the excerpt that follows."""
    if not _PLACE_ALONE.match(words):
        return words
    below = (line.words for line in lines[at + 1 : at + 10])
    return next((said for said in below if not _EXCERPT.match(said)), words)


def _reason(lines: Sequence[Line], place: int, below: str) -> str:
    """What the lines below say in one of the ways to list a reason, "" where they do not."""
    if _CAUSED.match(below):
        return _cause_below(lines, place)
    if _STEPS.match(below):
        steps = takewhile(_STEPS.match, (line.words for line in lines[place + 1 : place + _MOST_CAUSES]))
        return list(steps)[-1].lstrip("=> ")
    if lines[place].words[-1:] in {".", ":"}:
        bullets = (_BULLET.match(line.words) for line in lines[place + 1 : place + 1 + _BULLET_LINES])
        return next((found["words"] for found in bullets if found), "")
    return ""


def _replaced(words: str, below: Sequence[str]) -> str:
    """The line below where it says everything, "" where it does not."""
    if _PLACE_BEFORE.match(words):
        return below[0]
    return below[1].removeprefix("- ") if len(below) > 1 and _PROBLEM.match(below[0]) else ""


def continued(lines: Sequence[Line], place: int) -> str:
    """Return the line, with the lines below it where it only announces or counts them, or where they say why."""
    words = lines[place].words
    below = [line.words for line in lines[place + 1 : place + 3]]
    if not below:
        return words
    reason = _reason(lines, place, below[0])
    if reason:
        return f"{words} {reason}"
    if _FILE_ALONE.match(words):
        return f"{words} {_behind_excerpt(lines, place + 1, below[0])}"
    if _COUNTED.search(words):
        return " ".join([words, *below])
    return _replaced(words, below) or _announced(lines, place, below)


def _announced(lines: Sequence[Line], place: int, below: Sequence[str]) -> str:
    """The line, or what it announces with a colon at its end."""
    words = lines[place].words
    if not words.endswith(":") or " " not in words or _FRAME.match(below[0]):
        return words
    if below[0].endswith(":"):
        return below[1] if _ANNOUNCED.match(words) and _ANNOUNCED.match(below[0]) and len(below) > 1 else words
    clause = words[:-1].rsplit(": ", 1)[-1]
    if len(clause.split()) < _FEWEST_WORDS and lines[place + 1].indent <= lines[place].indent:
        return words
    return below[0] if _ANNOUNCED.match(words) else f"{words} {below[0]}"
