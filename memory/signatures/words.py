"""Lines without a shape of their own: the first that says an error, wrappers that only say something failed, hints."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.signatures.clean import Line
from memory.signatures.finding import Finding, Rank

_WRAPPER = re.compile(
    r"(?i)(?:"
    r".{0,200}\bmake(?:\[\d+\])?: \*\*\* |.{0,40}process completed with exit code|.{0,200}exit(?:ed)? (?:with )?(?:non-zero )?(?:exit )?(?:code|status):?\s?\d+\.?\)?$"
    r"|.{0,300}(?:returned|exited with)(?: a)? non-zero (?:exit )?(?:status|code)|collect2: error: ld returned"
    r"|error: could not compile|error: aborting due to|.{0,20}elifecycle|error: command failed|.{0,40}command failed with exit code"
    r"|.{0,20}build failed|.{0,60}\bfailed to solve: process|.{0,20}process \".{1,300}\" did not complete|.{0,40}compilation (?:failed|terminated|failure)|\d+ errors?(?: generated)?\.?$|found \d+ errors?"
    r"|error: process completed|.{0,30}job failed|subprocess-exited-with-error|.{0,40}errors? occurred$|failed \((?:errors|failures)="
    r"|=+ .{0,200}(?:failed|error).{0,100} =+$|test result: failed|error: test failed|fail\s+\S+$|exit (?:code|status) \d+$"
    r"|error: failed to push some refs|tests?:? .{0,60}failed|.{0,20}script failed|.{0,40}not remake because of errors"
    r"|error: metadata-generation-failed|error: failed building wheel|error: could not build wheels|.{0,30}did not run successfully"
    r"|.{0,10}\d+ problems? \(|automatic merge failed|ninja: build stopped|error executing command|.{0,200}failed: \(exit \d+\)"
    r"|execution failed for task|.{0,20}there are test failures|.{0,200}subprocess\.calledprocesserror|systemexit: \d+$"
    r"|error: linking with|error: could not exec|.{0,10}lint(?:ing)? failed|fatal: could not read from remote repository"
    r")"
)
_HINT = re.compile(
    r"(?i)(?:hint|note|help|tip|see|try|run|for (?:more|further|help)|did you|detail|context|query|statement|please|usage|info|debug"
    r"|trace|warn(?:ing)?|deprecat\w+|use|view|check|a complete log|learn more|available|caused by$|at\b|in\b|suggestion"
    r"|npm notice|npm warn|where:|require stack|-|\*|-->|#|>|\d+ ?\||\^|\+|added|collecting|downloading|successfully|\[info\]|\[warn\w*\]"
    r"|\[notice\]|location|possible|stdout|stderr|options|more details)(?=[:\s]|$|(?<=[#>|^+\]*-]))"
)
_LEVEL = re.compile(
    r"(?:\S{1,120}: )?(?i:\[?(?:error|fatal|critical|severe|failure|panic|err|exception|emerg|alert|fatal error)\b\]?!?)(?:\s{0,4}[:!\[(>|]|(?<=[\]!])\s|(?<=[A-Z]{3})\s|\s-\s)"
)
_SAID = re.compile(
    r"(?i)\b(?:error|failed|failure|fails|cannot|can't|can not|could not|couldn't|unable to|not found|no such|not exist|doesn't exist"
    r"|denied|refused|refusing|timed? ?out|timeout|invalid|unexpected|missing|already (?:exists|in use|been|running|started|allocated|taken)|exceed(?:ed|s)?"
    r"|undefined|unbound|unknown|unsupported|not supported|killed|segmentation fault|segfault|out of memory|aborted|abort|crash(?:ed)?"
    r"|forbidden|unauthorized|unauthenticated|expired|conflicts?|violat(?:es|ion)|duplicate|not permitted|not allowed|unavailable|unreachable"
    r"|no space|too (?:many|large|long|big)|limit|insufficient|corrupt(?:ed)?|broken|lost|reset by peer|disconnected|closed|deadlock"
    r"|must (?:be|have|not)|required|rejected|declined|mismatch(?:ed)?|overflow|illegal|bad|not (?:a|an|ready|defined|recognized|available|valid|installed|responding|been|unique|running|have)"
    r"|exhausted|overloaded|throttl\w+|quota|no (?:route|matching|module|response|valid|default|available)|unresolved|ambiguous|undeclared|is locked|problems?|self-signed|(?:http|status|code)\D{0,12}[45]\d\d|stale|oom\w*)\b"
)
_TYPED = re.compile(
    r"(?:[\w$]{1,80}[./:]{1,2}){0,12}[A-Z][\w$]{0,100}?(?:Error|Exception|Violation|Failure|Fault|Timeout|Expired|Interrupt|Detected|Warning|Exit|NotFound)\w{0,40}"
    r"(?: \[[\w-]{1,60}\])?(?:: .+|$)"
)
_TYPED_INSIDE = re.compile(r"(?:^|[\s({])(?P<words>(?:[\w$]{1,80}\.){0,12}[A-Z][\w$]{0,80}(?:Error|Exception)(?: \[[\w-]{1,60}\])?: .+)$")


def is_wrapper(words: str) -> bool:
    """Whether the line says only that something inside it failed."""
    return _WRAPPER.match(words) is not None


def find_typed(lines: Sequence[Line], text: str) -> Finding | None:
    """Find the first line that starts with the name of an exception."""
    if not ("rror" in text or "xception" in text or ": " in text):
        return None
    for place, line in enumerate(lines):
        if _TYPED.match(line.words) and not is_wrapper(line.words) and not line.words.startswith(("Warning", "Error:")):
            return Finding(Rank.TYPED, place, line.words, "exception")
    return None


def _with_next(lines: Sequence[Line], place: int) -> str:
    """The line, and the one below it where the line only announces it."""
    words = lines[place].words
    if words.endswith(":") and place + 1 < len(lines):
        return f"{words} {lines[place + 1].words}"
    return words


def find_words(lines: Sequence[Line], _text: str) -> Finding | None:
    """Find the first line marked as an error, else the first that speaks of one."""
    said: int | None = None
    for place, line in enumerate(lines):
        words = line.words
        if _LEVEL.match(words) and not is_wrapper(words) and len(words) > 8:
            return Finding(Rank.LEVEL, place, _with_next(lines, place), "error")
        if said is None and _SAID.search(words) and not _HINT.match(words) and not is_wrapper(words):
            said = place
    return None if said is None else Finding(Rank.WORDS, said, _with_next(lines, said), "error")


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
