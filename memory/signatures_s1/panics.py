"""Panics of Go and Rust: the words of the panic, and the function only where the words name nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.signatures_s1.clean import Line
from memory.signatures_s1.finding import Finding, Rank

_GO = re.compile(r"(?:panic|fatal error): (?P<words>.+?)(?: \[recovered\])?$")
_GO_FUNCTION = re.compile(
    r"(?P<name>[\w./*()\[\]-]{1,200}?)\((?:0x|\.\.\.|\{|\)|[\d,\s]).*$|(?P<bare>[\w./*()-]{1,200})\(\)$"
)
_GO_RUNTIME = ("panic(", "runtime.", "testing.", "runtime/", "created by ", "internal/")
_GO_BARE = ("runtime error:", "concurrent map", "all goroutines are asleep")
_RUST_NEW = re.compile(r"thread '(?P<thread>[^']{0,200})'(?: \(\d+\))? panicked at (?:[^'\"\s].{0,400}):\d+:\d+:$")
_RUST_OLD = re.compile(
    r"thread '(?P<thread>[^']{0,200})'(?: \(\d+\))? panicked at '(?P<words>.*?)(?:', [^'\s]["
    r"^']{0,400}:\d+(?::\d+)?)?$"
)


def _go_function(lines: Sequence[Line], place: int) -> tuple[tuple[str, str], ...]:
    """The top function of the first goroutine that is not the runtime's own."""
    for line in lines[place + 1 : place + 30]:
        if line.words.startswith(_GO_RUNTIME) or line.indent > lines[place].indent:
            continue
        found = _GO_FUNCTION.match(line.words)
        if found:
            return (("function", found["name"] or found["bare"]),)
    return ()


def find_go(lines: Sequence[Line], text: str) -> Finding | None:
    """Find a Go panic or fatal error of the runtime."""
    for place, line in enumerate(lines):
        found = _GO.match(line.words)
        if found is None or (line.words.startswith("fatal") and "goroutine" not in text):
            continue
        words = found["words"]
        bare = words.startswith(_GO_BARE)
        return Finding(Rank.CRASH, place, f"panic: {words}", "go_panic", _go_function(lines, place) if bare else ())
    return None


def _assertion(words: str, thread: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Old and new wording of `assert_eq!` in one form; a bare assertion is named by its test."""
    old = re.match(r"assertion failed: `\((left (?:==|!=) right)\)`(.*)", words)
    if old:
        words = f"assertion `{old[1]}` failed{old[2]}"
    if words.startswith("assertion") and thread not in {"main", "<unnamed>"}:
        return words, (("test", thread),)
    return words, ()


def find_rust(lines: Sequence[Line], _text: str) -> Finding | None:
    """Find a Rust panic, in the wording before and after Rust 1.73."""
    for place, line in enumerate(lines):
        if "panicked at" not in line.words:
            continue
        new, old = _RUST_NEW.search(line.words), _RUST_OLD.search(line.words)
        found = new or old
        if found is None:
            continue
        follows = place + 1 < len(lines)
        words = found["words"] if not new else lines[place + 1].words if follows else ""
        words, added = _assertion(words, found["thread"])
        return Finding(Rank.CRASH, place + 1 if new and follows else place, (f"panicked: {words}"), "rust_panic", added)
    return None
