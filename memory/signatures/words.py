"""Lines without a shape of their own: the first that says an error, wrappers that only say something failed, hints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from memory.signatures.clean import Line
from memory.signatures.continued import continued
from memory.signatures.finding import Finding, Rank
from memory.signatures.marks import stands

# Matched against the line in lower case.
_WRAPPER = re.compile(
    r"(?:collect2: error: ld returned|(?:error: )?command failed:|error: could not (?:compile|exec"
    r"|build wheels)|error: aborting due to|error: command failed"
    r"|\d+ errors?(?: generated)?\.?$|found \d+ errors?|error: process completed|failed \((?:errors"
    r"|failures)=|test result: failed|error: test failed"
    r"|fail\s+\S+$|exit (?:code|status):? \d+$|error: failed to push some refs|tests?:? .{0,60}failed"
    r"|automatic merge failed|ninja: build stopped"
    r"|error executing command|execution failed for task|systemexit: \d+$|error: linking with"
    r"|fatal: could not read from remote repository"
    r"|error: metadata-generation-failed|error: failed building wheel|=+ .{0,200}(?:failed"
    r"|error).{0,100} =+$)"
)
# What a wrapper has somewhere in it, in lower case: a plain part, and a pattern where the part alone is not enough.
_WRAPS: tuple[tuple[str, re.Pattern[str] | None], ...] = (
    ("*** [", re.compile(r"\bmake(?:\[\d+\])?: \*\*\* \[")),
    ("process completed with exit code", None),
    ("exit", re.compile(r"\bexit(?:ed|s)?(?: with)?(?: non-zero)?(?: exit)? (?:code|status):?\s?\d+\.?\)?$")),
    ("non-zero", re.compile(r"(?:returned|exited with)(?: a)? non-zero (?:exit )?(?:status|code)")),
    ("elifecycle", re.compile(r"\belifecycle\b")),
    ("command failed with exit code", None),
    ("build failed", re.compile(r"\bbuild failed")),
    ("failed to solve: process", None),
    ("did not complete", re.compile(r"process \".{1,300}\" did not complete")),
    ("compilation ", re.compile(r"\bcompilation (?:failed|terminated|failure)")),
    ("job failed: exit", re.compile(r"\bjob failed: exit")),
    ("subprocess-exited-with-error", None),
    ("occurred", re.compile(r"errors? occurred$")),
    ("script failed", re.compile(r"\bscript failed")),
    ("not remake because of errors", None),
    ("did not run successfully", None),
    ("problem", re.compile(r"\d problems? \(")),
    ("failed: (exit", re.compile(r"failed: \(exit \d+\)")),
    ("there are test failures", None),
    ("subprocess.calledprocesserror", None),
    ("failed to execute goal", re.compile(r"failed to execute goal \S+ \([^)]*\) on project \S+:?$")),
    ("previous errors", None),
    ("something went wrong", None),
    (" error", re.compile(r" \[\d+ errors?\]$")),
    ("lint", re.compile(r"\blint(?:ing)? failed")),
)
# "BUILD FAILED", "APPLICATION FAILED TO START": a banner over the cause.
_BANNER = re.compile(
    r"[^a-z]{0,40}\b(?:FAILED|FAILURE|ERRORS?)\b[^a-z]{0,40}$|(?i:failed to compile\.?$|finished: failure$"
    r"|there (?:was|were) \d+ (?:failure|error)s?:?$"
    r"|failures?:$|\d+ failing$)"
)
_HINT = re.compile(
    r"(?i)(?:hint|note|help|tip|see|try|run|for (?:more|further|help)|did you|detail|context|query"
    r"|statement|please|usage|info|debug"
    r"|trace|warn(?:ing)?|deprecat\w+|use|view|check|a complete log|learn more|available|caused by$"
    r"|at\b|in\b|suggestion"
    r"|node:internal\S*|\S{1,200}:\d+:in"
    r"|npm notice|npm warn|where:|require stack|-|\*|-->|#|>|\d+ ?\||\^|\+|added|collecting|downloading"
    r"|successfully|\[info\]|\[warn\w*\]"
    r"|\[notice\]|location|possible|stdout|stderr|options|more details|node\.js v\S+|\(use)(?=[:\s]|$"
    r"|(?<=[#>|^+\]*-]))"
)
_LEVEL = re.compile(
    r"(?:\S{1,120}: )?(?i:\[?(?:error|fatal|critical|severe|failure|panic|err|exception|emerg|alert"
    r"|fatal error|e(?=: ))\b\]?!?)(?:\s{0,4}(?:[!\[(>|]|:(?!\d))|(?<=[\]!])\s|(?<=[A-Z]{3})\s"
    r"|\s-\s)"
)
# What each level has, in lower case.
_LEVEL_MARKS = ("err", "fatal", "critical", "severe", "failure", "panic", "exception", "emerg", "alert", " e: ", "[e: ")
_SAID_WORDS = frozenset(
    {
        "abort", "aborted", "ambiguous", "bad", "broken", "can't", "cannot", "closed", "conflict", "conflicts",
        "corrupt", "corrupted", "couldn't", "crash", "crashed", "deadlock", "declined", "denied", "disconnected",
        "doesn't", "duplicate", "error", "errors", "exceed", "exceeded", "exceeds", "exhausted", "expired", "fail",
        "failed", "fails", "failure", "forbidden", "illegal", "insufficient", "invalid", "killed", "limit",
        "locked", "lost", "mismatch", "mismatched", "missing", "not", "oom", "oomkilled", "overflow", "overloaded",
        "problem", "problems", "quota", "refused", "refusing", "rejected", "required", "segfault", "segmentation",
        "self-signed", "stale", "terminated", "throttled", "throttling", "timeout", "unable", "unauthenticated",
        "unauthorized", "unavailable", "unbound", "undeclared", "undefined", "unexpected", "unknown", "unreachable",
        "unresolved", "unsupported", "violates", "violation", "wrong",
    }
)  # fmt: skip
_SAID_STRINGS = tuple(sorted(_SAID_WORDS, key=len))
_SAID = re.compile(
    r"(?:could not|no rule to|nothing (?:to commit|added to commit)|can not|no such|timed? ?out"
    r"|already (?:exists|in use|been|running|started|allocated|taken)|out of memory|no space"
    r"|too (?:many|large|long|big)|reset by peer|must (?:be|have|not)|no (?:route|matching|module"
    r"|response|valid|default|available)"
    r"|(?:http|status|code)\D{0,12}[45]\d\d| at \S{1,300} line \d+)\b"
)
# Of which each thing that is said in several words has one.
_SAID_MARKS = (
    "no ", "could ", "nothing ", "can not", "timeout", "time out", "timed", "already ", "out of memory", "too ",
    "reset ", "must ", "http", "status", "code", " line ",
)  # fmt: skip
_WORD = re.compile(r"[a-z][a-z'-]*")
# What a wrapper line has in any case: looked for first, because it is cheap.
_WRAPPER_MARKS = (
    "exit", "return", "fail", "error", "make", "compil", "complete", "lifecycle", "problem", "wrong", "remake",
    "remote",
)  # fmt: skip
_TYPED = re.compile(
    r"(?:<?[\w./-]{1,200}+>?:\d+: )?(?:[\w$]{1,80}+[./:]{1,2}){0,12}[A-Z][\w$]{0,100}?(?:Error|Exception"
    r"|Violation|Failure|Fault"
    r"|Timeout|Expired|Interrupt|Detected|Warning|Exit|NotFound)\w{0,40}"
    r"(?: \[[\w-]{1,60}\])?(?:: .+| \(.+\):?$|$)"
)
_CODED_MARKS = (" (error): ", " (warning): ", " (info): ", " (style): ")
_TYPED_MARKS = (
    "Error", "Exception", "Violation", "Failure", "Fault", "Timeout", "Expired", "Interrupt", "Detected", "Warning",
    "Exit", "NotFound", "** (", "): ",
)  # fmt: skip
# `** (Type) message` of the BEAM; `SC2086 (info): message` of linters.
_CODED = re.compile(
    r"^\*\* \((?P<type>[A-Z][\w.]{1,100})\) (?P<words>.+)$|(?:^"
    r"|\s)(?P<code>[A-Z]{1,6}\d{3,5}) \((?:error|warning|info|style)\): (?P<said>.+)$"
)


def _wraps(lower: str) -> bool:
    for part, pattern in _WRAPS:  # noqa: SIM110 -- a generator costs more than most of its steps
        if part in lower and (pattern is None or pattern.search(lower)):
            return True
    return False


@lru_cache(maxsize=256)
def is_wrapper(words: str) -> bool:
    """Whether the line says only that something inside it failed."""
    lower = words.lower()
    if not stands(_WRAPPER_MARKS, lower):
        return False
    return _WRAPPER.match(lower) is not None or _wraps(lower) or _BANNER.match(words) is not None


def may_wrap(lower: str) -> bool:
    """Whether a line in lower case has what a wrapper has in any case."""
    return stands(_WRAPPER_MARKS, lower)


def may_speak(lower: str) -> bool:
    """Whether a line in lower case has what a line marked as an error, or one that speaks of an error, has."""
    return stands(_LEVEL_MARKS, f" {lower}") or stands(_SAID_MARKS, lower) or stands(_SAID_STRINGS, lower)


def _says(lower: str) -> bool:
    return stands(_SAID_MARKS, lower) and _SAID.search(lower) is not None


def _speaks(words: str) -> bool:
    """Whether a line speaks of an error."""
    lower = words.lower()
    return not _SAID_WORDS.isdisjoint(_WORD.findall(lower)) or _says(lower)


def _only_negates(words: str) -> bool:
    """Whether "not" is all that makes a line speak of an error: many a remark says it."""
    lower = words.lower()
    return _SAID_WORDS.intersection(_WORD.findall(lower)) == {"not"} and not _says(lower)


def _is_coded(words: str) -> bool:
    return words.startswith("** (") or ("): " in words and any(mark in words for mark in _CODED_MARKS))


def find_typed(lines: Sequence[Line], text: str) -> Finding | None:
    """Find the first line that starts with the name of an exception."""
    if not any(mark in text for mark in _TYPED_MARKS):
        return None
    for place, line in enumerate(lines):
        coded = _CODED.search(line.words) if _is_coded(line.words) else None
        if coded:
            words = f"{coded['type'] or coded['code']}: {coded['words'] or coded['said']}"
            return Finding(Rank.TYPED, place, words, "exception" if coded["type"] else "lint")
        if (
            _TYPED.match(line.words)
            and not is_wrapper(line.words)
            and not line.words.startswith((("Warning"), "Error:"))
        ):
            return Finding(Rank.TYPED, place, continued(lines, place), "exception")
    return None


_USAGE = re.compile(r"(?i)\busage: ")
# Rules of asterisks, a logger's name at the end, and what stands in brackets.
_SAYS_NOTHING = re.compile(r"[*=-]{3,}|(?<!\S)\S+\s{0,8}:\s*$|\[[^\]]{0,200}\]")
_SAYS_NOTHING_MARKS = ("[", "***", "===", "---", "*=", "=*", "*-", "-*", "=-", "-=")
_SAYS = re.compile(r"(?<![^\W\d_])[^\W\d_]{2}[^*=]{0,120}[\s:'\"(_-][^\W\d_]|\w{8}")


def _says_something(words: str) -> bool:
    """Whether more than a logger's name or a rule of asterisks follows the level."""
    if words[-1:] == ":" or any(mark in words for mark in _SAYS_NOTHING_MARKS):
        words = _SAYS_NOTHING.sub("", words)
    return _SAYS.search(words) is not None


def _is_excerpt(lines: Sequence[Line], place: int) -> bool:
    """Whether carets under a line say that it is source."""
    return place + 1 < len(lines) and not lines[place + 1].words.strip("^~ ")


def _may_tell(lines: Sequence[Line], place: int) -> bool:
    words = lines[place].words
    return not (_HINT.match(words) or is_wrapper(words) or _is_excerpt(lines, place))


def find_words(lines: Sequence[Line], _text: str) -> Finding | None:
    """Find the first line marked as an error, else the first that speaks of one."""
    said: int | None = None
    weak: int | None = None
    for place, line in enumerate(lines):
        words = line.words
        level = _LEVEL.match(words)
        marked = level is not None and not _USAGE.search(words) and _says_something(words[level.end() :])
        if marked and not is_wrapper(words):
            return Finding(Rank.LEVEL, place, continued(lines, place), "error")
        if said is None and _speaks(words) and _may_tell(lines, place):
            said = place if _says_something(words) else None
        if weak is None and said == place and _only_negates(words):
            said, weak = None, place
    said = weak if said is None else said
    return None if said is None else Finding(Rank.WORDS, said, continued(lines, said), "error")


def find_wrapper(lines: Sequence[Line], _text: str) -> Finding | None:
    """Find the line that says something failed, the most telling first."""
    found: Finding | None = None
    for place, line in enumerate(lines):
        if is_wrapper(line.words) and (found is None or "did not complete" in line.words):
            found = Finding(Rank.WRAPPER, place, line.words, "exit_code")
    return found


def find_last(lines: Sequence[Line], _text: str) -> Finding | None:
    """Take the last line that is no hint, where nothing speaks of an error."""
    for place in range(len(lines) - 1, -1, -1):
        if not _HINT.match(lines[place].words):
            return Finding(Rank.LAST, place, lines[place].words, "text")
    return Finding(Rank.LAST, len(lines) - 1, lines[-1].words, "text") if lines else None
