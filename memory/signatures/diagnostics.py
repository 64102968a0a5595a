"""Compilers, linkers and linters: a place in a file, a severity, a code, a text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.signatures.clean import Line
from memory.signatures.finding import Finding, Rank

# file.c:3:5: …   file.ts(3,5): …   file.ts:3:5 - …   File.java:[3,5] …   file.py:3: …
_PLACED = re.compile(
    # A program's name, where a place follows that has one: `lua: a.lua:3: …`
    r"(?:(?:\[ERROR\]|[\w./+-]{1,200}+:(?= [^\s:]{1,300}\.\w{1,12}:\d+: )"
    r"|e:|ERROR:?|[Ee]rror:|vet:|ERROR in|In file included from) ?)?(?:file://)?"
    r"(?P<path>(?:[A-Za-z]:)?[^\s:()'\"<>|=]{1,300}?\.[A-Za-z]\w{0,12}|(?:[^\s:()'\"<>"
    r"|=]{0,300}/)?(?:Dockerfile|Makefile|BUILD|WORKSPACE))"
    r"(?::\[?\d+(?:[:,]\d+)?\]?|\(\d+(?:[,:]\d+){0,3}\)|: \(\d+, \d+\)|(?= ?: (?:fatal )?error\b))"
    r"\s?(?:: | - |:(?=\s)|\s(?=error|[A-Za-z]|package))\s{0,3}(?P<text>[^\s\[].*)$"
)
_SEVERITY = re.compile(r"(?:fatal error|error|Error|ERROR|E)\b(?=[\s:\[])")
# Without a severity, `name.word:12` may be a method and no file.
_SOURCE = re.compile(
    r"(?i)(?:\.(?:[ch](?:pp|xx|c|h)?|cc|mm?|go|rs|java|kts?|scala|groovy|gradle|py[xi]?|rb|erb|php|[cm]?[jt]sx?|vue|svelte|swift"
    r"|cs|fs|vb|dart|zig|hs|ml|exs?|erl|clj|lua|pl|r|sh|bash|sql|proto|tf|ya?ml|json|toml|ini|cfg|xml|html?|css|scss|md|nix)"
    r"|Dockerfile|Makefile|BUILD|WORKSPACE)$"
)
_IGNORED = re.compile(
    r"(?i)(?:warning|note|info|hint|remark|help|in file included|required from|\(?previous"
    r"|recipe for|in (?:local|upvalue|global|field|method|function|main chunk))\b"
)
# `error[E0382]: …`, `F401 [*] …`, `invalid-syntax: …` above `--> src/a.rs:3:5`
_ARROW = re.compile(r"(?:--> ?|\[ ?)[^\s\]]{1,400}?:\d+(?::\d+)?(?: ?\]$|(?![\w:]))")
_POINTED = re.compile(r"(?P<code>[A-Z]{1,8}\d{2,5})(?: \[\*\])? (?P<text>.+)$")
_POINTED_IGNORED = re.compile(r"(?:warning|note|info|help|hint)\b|[\d\s]{0,8}[|=]|-->|\W*$")
_ESLINT = re.compile(r"\d+:\d+\s+(?:error|[\u2716\u00d7])\s+(?P<text>.+?)(?:\s{2,}(?P<rule>[@\w/-]+))?$")
_LINKER = re.compile(
    r"(?:undefined reference to|undefined symbol:?|multiple definition of|cannot find -l"
    r"|library not found for|"
    r"duplicate symbol|unresolved external symbol|Undefined symbols for|cannot find \S+\.(?:o|a|so)\b"
    r"|relocation R_)"
)
_EMPTY = re.compile(r"(?:(?:fatal )?error)?:?\s{0,3}(?:\[[\w-]{1,40}\])?:?$")
_SYMBOL = re.compile(r"symbol:\s+(?P<what>.+)$")
_LABEL = re.compile(r"\d*\s{0,8}\|[\s|/_-]{0,200}\^+\s(?P<label>.+)$")
_PROJECT = re.compile(r"\s\[(?:[A-Za-z]:)?[\\/][^\]]{1,400}proj[^\]]{0,100}\]$")
_LABEL_DISTANCE = 12


def _is_error(text: str) -> bool:
    return not _IGNORED.match(text)


def _symbol(lines: Sequence[Line], place: int) -> tuple[tuple[str, str], ...]:
    """javac names the missing symbol some lines below its error."""
    for line in lines[place + 1 : place + 6]:
        found = _SYMBOL.search(line.words)
        if found:
            return (("symbol", found["what"]),)
    return ()


def find_placed(lines: Sequence[Line], _text: str) -> Finding | None:
    """Find the first error that is written behind a place in a file."""
    plain: Finding | None = None
    for place, line in enumerate(lines):
        found = _PLACED.match(line.words)
        if found is None or not _is_error(found["text"]):
            continue
        words = _PROJECT.sub("", found["text"])
        if _EMPTY.match(words) and place + 1 < len(lines):
            words = f"{words} {lines[place + 1].words}"
        if _LINKER.search(words):
            return None
        if _SEVERITY.match(words) or line.words.startswith("e: "):
            added = _symbol(lines, place) if "cannot find symbol" in words else ()
            return Finding(Rank.DIAGNOSTIC, place, words, "diagnostic", added)
        if plain is None and _SOURCE.search(found["path"]):
            added = _symbol(lines, place) if "cannot find symbol" in words else ()
            plain = Finding(Rank.TYPED, place, words, "diagnostic", added)
    return plain


def find_linker(lines: Sequence[Line], _text: str) -> Finding | None:
    """Find the symbol or library that a linker misses; its place and object file say nothing."""
    for place, line in enumerate(lines):
        found = _LINKER.search(line.words)
        if found is None:
            continue
        words = line.words[found.start() :]
        if words.startswith("Undefined symbols") and place + 1 < len(lines):
            words = f"undefined symbol: {lines[place + 1].words.split(',')[0]}"
        words = re.split(r" referenced (?:in|by) |; \S+:|: first defined|>>>", words)[0]
        return Finding(Rank.DIAGNOSTIC, place, words, "linker")
    return None


def find_pointed(lines: Sequence[Line], _text: str) -> Finding | None:
    """Find the first error that stands above an arrow to its source, with the label under its carets."""
    for place, line in enumerate(lines[:-1]):
        if not _ARROW.match(lines[place + 1].words) or _POINTED_IGNORED.match(line.words):
            continue
        below = lines[place + 1 : place + 1 + _LABEL_DISTANCE]
        label = next((m for m in (_LABEL.match(other.words) for other in below) if m), None)
        coded = _POINTED.match(line.words)
        bare = coded is None and "`" not in line.words
        added = (("label", label["label"]),) if label and bare else ()
        words = f"{coded['code']}: {coded['text']}" if coded else line.words
        return Finding(Rank.DIAGNOSTIC, place, words, "lint" if coded else "diagnostic", added)
    return None


def find_eslint(lines: Sequence[Line], _text: str) -> Finding | None:
    """Find the first error in a linter's table."""
    for place, line in enumerate(lines):
        found = _ESLINT.match(line.words)
        if found:
            return Finding(Rank.DIAGNOSTIC, place, (f"error {found['rule'] or 'parse'}: {found['text']}"), "lint")
    return None
