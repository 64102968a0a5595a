"""Cut texts into search terms: words, and code names whole and in their parts. The same for documents and queries."""

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import Stemmer  # type: ignore[import-not-found]  # a compiled module without types

LONGEST_TEXT: Final = 20_000
"""Characters of a text that are indexed; a lesson is far shorter, a pasted log is not."""

LONGEST_TERM: Final = 64
MOST_QUERY_TERMS: Final = 64
_STOP_WORDS = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to
was will with
"""
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())
# Words of a question that say little of its subject. They are kept as terms, since a title may be made of them.
_FUNCTION_WORDS = """
how what when where who whom whose which why do does did can could would should may might must shall i me my we us our
you your he him his how she her its them am have has had been were so just about from any some all
"""

# A run of letters, digits and underscores, or several of them joined as a path, a module or an option is.
_NAME = re.compile(r"\w+(?:[.:/\\-]+\w+)*")
_JOINT = re.compile(r"[.:/\\_-]+")
# "HTTPServerError42" -> HTTP, Server, Error, 42
_HUMP = re.compile(r"[A-Z]+(?![^\W\d_A-Z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_DIGITS = re.compile(r"\d+")
_english = threading.local()


def terms(text: str) -> Counter[str]:
    """Count the search terms of a text: names whole and in parts, stemmed, without stop words."""
    return Counter(term for term, _ in _terms(text))


def spellings(text: str) -> dict[str, str]:
    """Give for each search term of a text how it stands there first: "shar" is "shares" to a person."""
    found: dict[str, str] = {}
    for term, written in _terms(text):
        found.setdefault(term, written)
    return found


def query_terms(text: str) -> tuple[str, ...]:
    """Give the different terms of a query, at most 64: those of its subject first, then the ones it repeats most."""
    counted = terms(text)
    # Ties by the term, so that a long query is cut the same way every time.
    ordered = sorted(counted, key=lambda term: (term in FUNCTION_TERMS, -counted[term], term))
    return tuple(ordered[:MOST_QUERY_TERMS])


def _terms(text: str) -> Iterator[tuple[str, str]]:
    """Give each term with what it was made of."""
    for match in _NAME.finditer(unicodedata.normalize("NFKC", text[:LONGEST_TEXT])):
        name = match.group().strip("_")
        parts = [part for part in _JOINT.split(name) if part]
        for part in parts:
            yield from _words(part)
        if len(parts) > 1:
            yield name.lower()[:LONGEST_TERM], name


def _words(part: str) -> Iterator[tuple[str, str]]:
    """Give a name without joints as a term and, where it is made of several words, each of those too."""
    humps = _HUMP.findall(part)
    # Several numbers between letters are a hash or an address, whose pieces would be found everywhere.
    pieces = humps if len(humps) > 1 and len(_DIGITS.findall(part)) < 2 else []
    for piece in (part, *pieces):
        word = piece.lower()
        # A single letter says nothing; a single digit may be an exit code.
        if word not in STOP_WORDS and (len(word) > 1 or word.isdigit() or not word.isascii()):
            yield stem(word)[:LONGEST_TERM], piece


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Take English endings off, so that "retries" finds "retry", "failed" finds "fail"; other words stay."""
    if not (word.isascii() and word.isalpha()) or len(word) > LONGEST_TERM:
        return word
    # A stemmer keeps its state between letters: two threads in one would mix their words.
    if not hasattr(_english, "stemmer"):
        _english.stemmer = Stemmer.Stemmer("english")
    return str(_english.stemmer.stemWord(word))


FUNCTION_TERMS: Final = frozenset(stem(word) for word in _FUNCTION_WORDS.split())
