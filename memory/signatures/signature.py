"""`sign`: from a raw error output or log line to its versioned, stateless key."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from memory.signatures.bodies import find_body, find_markup, find_record, find_status
from memory.signatures.check_titles import title_of
from memory.signatures.clean import Line, clean
from memory.signatures.diagnostics import find_eslint, find_linker, find_placed, find_pointed
from memory.signatures.finding import Finding, Rank
from memory.signatures.kinds import family_parts, kind_and_title
from memory.signatures.log_profile import log_template
from memory.signatures.marks import stands, without_digits
from memory.signatures.masks import ErrorMasker
from memory.signatures.normal import normal
from memory.signatures.panics import find_go, find_rust
from memory.signatures.stacks import find_aborted, find_executing, find_fatal, find_ruby, find_stack, find_thrown
from memory.signatures.tests_failed import find_browser_wait, find_go_test, find_jest, find_pytest, find_rspec
from memory.signatures.tools import find_ansible, find_git, find_gradle, find_maven, find_npm, find_terraform
from memory.signatures.tracebacks import find_python
from memory.signatures.waits import retry_after_seconds
from memory.signatures.words import find_last, find_typed, find_words, find_wrapper, is_wrapper, may_speak, may_wrap

VERSION = "s2"
FAMILY_VERSION = "f1"
Profile = Literal["error", "log"]
Find = Callable[[Sequence[Line], str], Finding | None]
Shape = tuple[Rank, tuple[str, ...], Find]

# (best rank it can give, marks of which one stands in the text, the shape), best first: a shape that cannot beat what
# is found is not looked for.
_ANY = ("",)
_SHAPES: tuple[Shape, ...] = (
    (Rank.RUNNER, ("E  ", "FAILED ", "ERROR "), find_pytest),
    (Rank.RUNNER, ("\u25cf ", "FAIL "), find_jest),
    (Rank.RUNNER, ("ms exceeded", "Timed out ", "Locator: "), find_browser_wait),
    (Rank.RUNNER, ("Failure/Error: ",), find_rspec),
    (Rank.TRACEBACK, ('File "',), find_python),
    (Rank.TRACEBACK, (" at ", "\tat "), find_stack),
    (Rank.TRACEBACK, (":in ",), find_ruby),
    (Rank.TRACEBACK, ("while executing", "invoked from within"), find_executing),
    (Rank.CRASH, ("Fatal error", "Parse error", "Uncaught"), find_fatal),
    (Rank.CRASH, ("terminate called",), find_thrown),
    (Rank.CRASH, ("(): ", " detected ***", "double free"), find_aborted),
    (Rank.CRASH, ("panic: ", "fatal error: "), find_go),
    (Rank.CRASH, ("panicked at",), find_rust),
    (Rank.DIAGNOSTIC, (": ", " - ", "):", "] "), find_placed),
    (Rank.DIAGNOSTIC, ((
        "undefined "
    ), (
        "multiple def"
    ), "cannot find ", "library not", "duplicate symbol", "unresolved ext", "Undefined sym"), find_linker),
    (Rank.DIAGNOSTIC, ("--> ", "["), find_pointed),
    (Rank.DIAGNOSTIC, ("  error  ", "  \u2716  ", "  \u00d7  "), find_eslint),
    (Rank.TEST, ("--- FAIL",), find_go_test),
    (Rank.TOOL, ("code E",), find_npm),
    (Rank.TOOL, ("rejected]", "CONFLICT", "remote failure"), find_git),
    (Rank.TOOL, ("Error: ",), find_terraform),
    (Rank.TOOL, ("fatal: [",), find_ansible),
    (Rank.TOOL, ("What went wrong",), find_gradle),
    (Rank.TOOL, ("Failed to execute goal",), find_maven),
    (Rank.TYPED, (": ",), find_typed),
    (Rank.BODY, ("HTTP/",), find_status),
    (Rank.BODY, ("{",), find_body),
    (Rank.BODY, ("<Code>", "<Message>", "<faultcode>", "<title>"), find_markup),
    (Rank.BODY, ("level=", "msg="), find_record),
    (Rank.LEVEL, _ANY, find_words),
    (Rank.WRAPPER, _ANY, find_wrapper),
    (Rank.LAST, _ANY, find_last),
)  # fmt: skip
_SAMPLE_CHARACTERS = 500
_TEMPLATE_CHARACTERS = 600
_LINE_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Signature:
    """A failure's key and what made it; `key` alone identifies, the rest explains."""

    key: str
    family: str
    kind: str
    title: str
    template: str
    slots: tuple[tuple[str, str], ...]
    sample: str
    line_number: int | None
    weak: bool
    masked: Mapping[str, int] = field(default_factory=dict)
    retry_after_seconds: float | None = None


def _digest(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "replace")).hexdigest()[:32]


# Shapes that read more than one line, which most texts of one line need not be searched for.
_MANY_LINES: frozenset[Find] = frozenset({find_jest, find_rspec, find_python, find_stack, find_pointed})
_ONE_LINE_SHAPES = tuple(shape for shape in _SHAPES if shape[2] not in _MANY_LINES)
# Shapes whose marks are in any case, and whether such a one can stand in a line in lower case.
_BY_CASELESS_MARKS: Mapping[Find, Callable[[str], bool]] = {find_words: may_speak, find_wrapper: may_wrap}


@lru_cache(maxsize=1024)
def _possible_shapes(bare: bytes) -> tuple[Shape, ...]:
    """The shapes that one line can have, by the line without its digits."""
    text = bare.decode()
    lower = text.lower()
    return tuple(
        shape
        for shape in _ONE_LINE_SHAPES
        if stands(shape[1], text) and (shape[2] not in _BY_CASELESS_MARKS or _BY_CASELESS_MARKS[shape[2]](lower))
    )


def _shapes(lines: Sequence[Line], text: str) -> tuple[Shape, ...]:
    if len(lines) > 1:
        return _SHAPES
    bare = without_digits(text)
    return _ONE_LINE_SHAPES if bare is None else _possible_shapes(bare)


def _found(lines: Sequence[Line]) -> Finding:
    """The most believable finding; of equals the first shape's."""
    text = "\n".join(line.text for line in lines) if len(lines) != 1 else lines[0].text
    best: Finding | None = None
    for most, marks, find in _shapes(lines, text):
        if best is not None and best.rank >= most:
            break
        for mark in marks:
            if mark in text:
                break
        else:
            continue
        finding = find(lines, text)
        if finding is None:
            continue
        if finding.rank > Rank.WRAPPER and not finding.added and is_wrapper(finding.words):
            finding = Finding(Rank.WRAPPER, finding.place, finding.words, finding.shape, finding.added)
        if best is None or finding.rank > best.rank:
            best = finding
    if best is None:
        return Finding(Rank.LAST, 0, "", "empty")
    added = best.added or title_of(lines, best.place, best.words)
    return best._replace(added=added) if added else best


def _template(words: str) -> tuple[str, ErrorMasker]:
    masker = ErrorMasker()
    return masker.mask(normal(words))[:_TEMPLATE_CHARACTERS], masker


def error_signature(text: str) -> str:
    """Return the key of an error output: the version, a colon and 32 hex digits."""
    return _line_key(text) if len(text) <= _LINE_CHARACTERS else _error_key(text)


def _error_key(text: str) -> str:
    found = _found(clean(text))
    template, _ = _template(found.words)
    return f"{VERSION}:{_digest('error', template, *_added(found))}"


# Short lines come again and again, such as those of one retry after the other.
_line_key = lru_cache(maxsize=512)(_error_key)


def log_signature(text: str) -> str:
    """Return the key of a log line: the version, a colon and 32 hex digits."""
    return f"{VERSION}:{_digest('log', log_template(text))}"


def _added(found: Finding) -> list[str]:
    if not found.added:
        return []
    masker = ErrorMasker()
    return [f"{name}={masker.mask(normal(value))}" for name, value in found.added]


def sign(text: str, *, profile: Profile = "error") -> Signature:
    """Return the key of a text with its kind, slots, template, title and the wait it asks for."""
    return _sign_log(text) if profile == "log" else _sign_error(text)


def _sign_error(text: str) -> Signature:
    lines = clean(text)
    found = _found(lines)
    template, masker = _template(found.words)
    line = lines[found.place] if lines else None
    kind, title = kind_and_title(template, found.shape)
    added = _added(found)
    return Signature(
        key=f"{VERSION}:{_digest('error', template, *added)}",
        family=f"{FAMILY_VERSION}:{_digest(*family_parts(kind, template))}",
        kind=kind,
        title=title,
        template=template,
        slots=(*masker.kept, *found.added),
        sample=line.words[:_SAMPLE_CHARACTERS] if line else "",
        line_number=line.number if line else None,
        weak=found.rank <= Rank.WRAPPER,
        masked=dict(sorted(masker.masked.items())),
        retry_after_seconds=retry_after_seconds("\n".join(x.words for x in lines)),
    )


def _sign_log(text: str) -> Signature:
    template = log_template(text)
    lines = clean(text)
    kind, title = kind_and_title(template, "log_line")
    return Signature(
        key=f"{VERSION}:{_digest('log', template)}",
        family=f"{FAMILY_VERSION}:{_digest(*family_parts(kind, template))}",
        kind=kind,
        title=title,
        template=template,
        slots=(),
        sample=lines[0].words[:_SAMPLE_CHARACTERS] if lines else "",
        line_number=lines[0].number if lines else None,
        weak=False,
        retry_after_seconds=retry_after_seconds(template),
    )
