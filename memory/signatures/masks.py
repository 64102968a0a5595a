"""What is replaced in the words that name an error: everything that differs between two meetings with one failure."""

from __future__ import annotations

import re

from memory.signatures.paths import is_named, looks_random, path_name, relative_name, without_version
from memory.signatures.volatile import volatile

# Words before a quoted text that say that it is a value, and no name.
_VALUE_BEFORE = re.compile(
    r"(?i)(?:literal.{0,40}|input syntax.{0,60}|convert (?:(?!\btype\b).){0,40}"
    r"|time data|isoformat string|\bentry|\buser(?:name)?"
    r"|invalid (?:value|date|time|json|format|uuid|url|number|integer|literal).{0,30}|\bgot|\breceived|parsing"
    r"|unexpected token|input string:?|(?<!unexpected )\bvalue|\bhost(?:name)?"
    r"|\blogin|password for|\baccount)[:= ]{0,3}$|'@$"
)
_VALUE_MARKS = (
    "literal", "input syntax", "convert", "time data", "isoformat string", "entry", "user", "invalid", "got",
    "received", "parsing", "input string", "unexpected token", "value", "host", "login", "password for", "account",
    "'@",
)  # fmt: skip
# What a registry of packages does not have is the package.
_PACKAGE_URL = re.compile(r"https?://[\w.:-]{1,200}/(?P<name>(?:@[\w.-]{1,60}(?:/|%2[fF]))?[A-Za-z][\w.-]{0,80})")
_VALUE_BEHIND = re.compile(r" is (?:not of type|too (?:long|short)|not valid under)\b")
_HTTP_VERSION = re.compile(r"^HTTP/\d(?:\.\d)?")
_CODE_SEPARATORS = re.compile(r"[\s:=#()\[\"']+")
_SLASH = re.compile(r"[\\/]")
_OPTION = re.compile(r" [-/&|>]")
_ROUTE_BEFORE = re.compile(r"(?i:\burl: |\burl |\bpath: |\broute )$|\b(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS):? $")
_FILE_WITH_PLACE = re.compile(r"^(?P<name>.*?)(?::\d+(?::\d+)?|\(\d+(?:,\d+)?\))$")
# A name that no kind of volatile part looks like: a digit after an underscore may be an id by prefix.
_PLAIN_NAME = re.compile(r"[A-Za-z_$](?:[A-Za-z_$]*|[A-Za-z$\d]*)")
_LABEL = re.compile(
    r"(?:@[\w.-]{0,60})?//[\w./:@+-]{1,200}"
)  # a target of a build graph, which no folder makes volatile


def _is_value(before: str) -> bool:
    lower = before.lower()
    return any(mark in lower for mark in _VALUE_MARKS) and _VALUE_BEFORE.search(before) is not None


class ErrorMasker:
    """Masks one line, and counts what it masked and remembers what it kept as identity."""

    def __init__(self) -> None:
        self.masked: dict[str, int] = {}
        self.kept: list[tuple[str, str]] = []

    def mask(self, words: str) -> str:
        """Return the words with every volatile part replaced."""
        masked: list[str] = []
        end = numbers = 0
        # No callback by `sub`: most matches are runs of plain words, which stay.
        for match in volatile(words).finditer(words):
            kind = match.lastgroup
            if kind is None or kind == "standard":
                continue
            start, after = match.span()
            masked.append(words[end:start])
            if kind == "plain_number":
                numbers += 1
                masked.append("<number>")
            else:
                masked.append(self._replaced(match, kind))
            end = after
        if not end:
            return words
        if numbers:
            self.masked["number"] = self.masked.get("number", 0) + numbers
        masked.append(words[end:])
        return "".join(masked)

    def _count(self, kind: str) -> str:
        self.masked[kind] = self.masked.get(kind, 0) + 1
        return f"<{kind}>"

    def _replaced(self, match: re.Match[str], kind: str) -> str:
        word = match[0]
        if kind == "quoted":
            return self._quoted(match)
        if kind == "code":
            return self._code(word)
        if kind == "url":
            return self._url(word, match.string.startswith(": Not Found - 404", match.end()))
        if kind == "path":
            return self._path(word, match.string[max(0, match.start() - 40) : match.start()])
        if kind == "source":
            found = _FILE_WITH_PLACE.match(word)
            return found["name"] if found else word
        if kind == "id" and "-" not in word and "_" not in word and not looks_random(word):
            return word
        return ("@" if word[0] == "@" else "") + self._count(kind)

    def _code(self, word: str) -> str:
        word = _CODE_SEPARATORS.sub(" ", _HTTP_VERSION.sub("HTTP", word)).lower().strip()
        self.kept.append(("code", word))
        return word

    def _url(self, word: str, missing: bool) -> str:
        self._count("url")
        package = _PACKAGE_URL.match(word) if missing or "registry" in word else None
        return f"<url>/{package['name']}" if package else "<url>"

    def _path(self, word: str, before: str) -> str:
        if _ROUTE_BEFORE.search(before):
            return self._count("url")
        root = word[0] in "/~\\" or word[1:2] == ":"
        kept = path_name(word) if root else relative_name(word, before)
        if kept != word:
            self._count("path")
        return kept

    def _quoted(self, match: re.Match[str]) -> str:
        inner = match["inner"]
        if not inner:
            return "''"
        before = match.string[max(0, match.start() - 70) : match.start()]
        if match["q"] != "`" and (_is_value(before) or _VALUE_BEHIND.match(match.string, match.end())):
            return f"'{self._count('value')}'"
        kept = self._quoted_name(inner, before)
        if "<" not in kept:
            self.kept.append(("name", kept))
        return f"'{kept}'"

    def _quoted_name(self, inner: str, before: str) -> str:
        if inner == "localhost":
            return self._count("address")
        if _LABEL.fullmatch(inner):
            return inner
        if " " not in inner and is_named(before):
            if inner.startswith(("/", ".", "~")):
                return _SLASH.split(inner.rstrip("/"))[-1]
            if ":\\" not in inner and ":/" not in inner:
                return without_version(inner)
        rooted = inner[0] in "/~\\" or inner[1:3] in {":\\", ":/"} or inner.startswith(("./", "../"))
        if rooted and not _OPTION.search(inner):
            self._count("path")
            return path_name(inner)
        if _PLAIN_NAME.fullmatch(inner) and not looks_random(inner):
            return inner
        return self.mask(inner)
