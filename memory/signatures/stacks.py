"""Exceptions with `at …` frames: JavaScript, the JVM, .NET; and Ruby, PHP, Swift and C++, whose heads differ."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.signatures.bodies import told
from memory.signatures.clean import Line
from memory.signatures.finding import Finding, Rank

_AT = re.compile(r"at (?:async |new )?\S.{0,400}$")
_HEAD = re.compile(
    r"(?:.{0,120}?[\s{(\[])??(?P<type>(?:[A-Za-z_$][\w$]{0,80}\.){0,12}(?:Error|error"
    r"|[A-Za-z_$][\w$]{0,80}(?:Error|Exception|Throwable|Failure|Fault|error))\b[\w$]{0,40})"
    r"(?P<code> \[[\w-]{1,60}\])?(?::"
    r"|$)(?P<message>.*)$"
)
_JVM_THREAD = re.compile(r'(?:Uncaught )?Exception in thread "[^"]{0,200}" ')
_CAUSE = re.compile(r"(?:Caused by: |\[cause\]: |--->\s{1,3}|Inner Exception(?: \d+)?:\s)(?P<words>.+)$")
_PART = re.compile(
    r"(?:at |\.\.\. \d+ (?:more|common frames)|Suppressed: |Caused by: |\[cause\]|--- End|[{}]"
    r"|[\w$]+: )"
)
_HEAD_DISTANCE = 12
_MESSAGE_LINES = 3
_LONGEST_TRACE = 400


def _head_before(lines: Sequence[Line], frame: int) -> int | None:
    """The place of the line that names the exception whose first frame is at `frame`."""
    for place in range(frame - 1, max(-1, frame - 1 - _HEAD_DISTANCE), -1):
        found = _HEAD.match(lines[place].words)
        # "Build failed with 1 error:" announces, and names nothing.
        if found and (found["type"] != "error" or found["message"].strip()):
            return place
    above = lines[frame - 1].words
    return frame - 1 if ":" in above[:-1] and not above[0].isdigit() and not above.startswith("at ") else None


def _root_cause(lines: Sequence[Line], head: int) -> tuple[int, str] | None:
    """The last cause that belongs to the trace which starts at `head`."""
    cause = None
    for place in range(head, min(head + _LONGEST_TRACE, len(lines))):
        words = lines[place].words
        found = _CAUSE.search(words) if "aus" in words or ">" in words or "Inner" in words else None
        if found:
            cause = (place, found["words"])
        elif place > head + _HEAD_DISTANCE and not _PART.match(words):
            break
    return cause


def _body_below(lines: Sequence[Line], place: int) -> str:
    """What the body says that a message opens with its last character."""
    below = [line.words for line in lines[place + 1 : place + 1 + _HEAD_DISTANCE]]
    return told("{" + "\n".join(below)) or (below[0] if below else "")


def _named(words: str) -> str:
    """The exception's type and message, without what stands before the type."""
    words = _JVM_THREAD.sub("", words)
    head = _HEAD.match(words)
    return words[head.start("type") :] if head else words


def _top_function(lines: Sequence[Line], place: int) -> tuple[tuple[str, str], ...]:
    for line in lines[place + 1 : place + 4]:
        if line.words.startswith("at "):
            name = re.match(r"at (?:async |new )?(?:[\w.]{1,60}/)?([\w$.<>]{1,200})", line.words)
            return (("function", name[1]),) if name else ()
    return ()


def _with_message(lines: Sequence[Line], place: int, frame: int, words: str) -> str:
    """The words, and the message where it only begins on their line or stands between them and the frames."""
    if words.endswith((": {", ": [")):
        return f"{words[:-1]}{_body_below(lines, place)}"
    if words.endswith(":") and " " not in words:
        return " ".join([words, *(line.words for line in lines[place + 1 : frame][-_MESSAGE_LINES:])])
    return words


def find_stack(lines: Sequence[Line], _text: str) -> Finding | None:
    """Find the exception above the first run of `at …` frames, or the root cause it names."""
    frame = next((p for p, line in enumerate(lines) if p and line.indent and _AT.match(line.words)), None)
    head = None if frame is None else _head_before(lines, frame)
    if frame is None or head is None:
        return None
    place, words = _root_cause(lines, head) or (head, lines[head].words)
    words = _with_message(lines, place, frame, _named(words))
    # A message that only announces what the lines below say must not win over a shape that reads those.
    rank = Rank.TOOL if words.endswith(":") and " " in words else Rank.TRACEBACK
    bare = " " not in words and words.find(":") in {-1, len(words) - 1}
    return Finding(rank, place, words, "exception", _top_function(lines, place) if bare else ())


_RUBY = re.compile(r"(?:\S{1,300}?:\d+:in [`'][^'\n]{0,200}': )(?P<message>.*?)\s\((?P<type>[A-Z][\w:]{1,100})\)$")
_PHP = re.compile(
    r"(?:PHP )?(?P<level>Fatal error|Parse error|Uncaught Exception|Recoverable fatal error):\s+"
    r"(?:Uncaught )?(?P<words>.+?)(?: in (?:phar://)?[^\s:]{1,300}(?:(?: on line |:)\d+)?)?$"
)
_SWIFT = re.compile(r"(?:\S{1,300}:\d+: )?(?P<words>Fatal error(?:: .+?)?)(?:: file \S{1,300}, line \d+)?$")
_WHAT = re.compile(r"what\(\):\s*(?P<words>.+)$")
_ABORTED = re.compile(
    r"\b(?:(?:free|[mc]alloc|realloc|munmap_chunk|malloc_\w{1,30})\(\): \w.{1,200}|double free or corruption.{0,40})"
    r"|\*\*\* [\w ]{3,80} detected \*\*\*.{0,60}"
)
_THROWN = re.compile(r"terminate called after throwing an instance of '(?P<type>[^']{1,200})'")


def find_ruby(lines: Sequence[Line], _text: str) -> Finding | None:
    """Find `file:line:in 'method': message (Type)`."""
    for place, line in enumerate(lines):
        found = _RUBY.match(line.words)
        if found:
            return Finding(Rank.TRACEBACK, place, f"{found['type']}: {found['message']}", "exception")
    return None


def find_fatal(lines: Sequence[Line], text: str) -> Finding | None:
    """Find the fatal errors of PHP and Swift, which write their place behind the message."""
    pattern = _PHP if "PHP " in text or "#0 " in text or " on line " in text else _SWIFT
    for place, line in enumerate(lines):
        found = pattern.match(line.words)
        if found:
            return Finding(Rank.CRASH, place, found["words"], "exception")
    return None


def find_aborted(lines: Sequence[Line], _text: str) -> Finding | None:
    """Find why the C library ended a program, which the signal that follows does not say."""
    for place, line in enumerate(lines):
        found = _ABORTED.search(line.words)
        if found:
            return Finding(Rank.CRASH, place, found[0], "signal")
    return None


def find_executing(lines: Sequence[Line], _text: str) -> Finding | None:
    """Find the message that Tcl writes above its stack."""
    for place, line in enumerate(lines):
        if place and line.words in {"while executing", "invoked from within"}:
            return Finding(Rank.TRACEBACK, place - 1, lines[place - 1].words, "exception")
    return None


def find_thrown(lines: Sequence[Line], _text: str) -> Finding | None:
    """Find what a C++ program threw before it was terminated."""
    for place, line in enumerate(lines):
        thrown = _THROWN.search(line.words)
        if thrown:
            what = next((_WHAT.match(other.words) for other in lines[place + 1 : place + 3]), None)
            return Finding(
                Rank.CRASH, place, (f"{thrown['type']}: {what['words']}") if what else thrown["type"], "exception"
            )
    return None
