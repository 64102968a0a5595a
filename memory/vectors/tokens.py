"""Cut text into search terms that suit code: parts of names and paths beside the names themselves."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

LONGEST_TEXT: Final = 20_000
"""Characters of a text that are indexed; a lesson is far shorter, a pasted log is not."""

LONGEST_TERM: Final = 64
_STOP_WORDS = """
a an and are as at be been but by did do does for from had has have he her his how i if in into is it its me
my of on or our she so than that the their them then there these they this to us was we were what when where
which who whom whose why will with would you your
"""
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())

_NAME = re.compile(r"[^\W_][\w]*(?:[.:/\\-][^\W_][\w]*)*", re.UNICODE)
_JOINT = re.compile(r"[.:/\\_-]+")
# "HTTPServerError42" -> HTTP, Server, Error, 42
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+", re.UNICODE)


def terms(text: str) -> Counter[str]:
    """Count the search terms of a text: names whole and in parts, stemmed, without stop words."""
    return Counter(_terms(text[:LONGEST_TEXT]))


def _terms(text: str) -> Iterator[str]:
    for match in _NAME.finditer(text):
        name = match.group()
        parts = [part for piece in _JOINT.split(name) for part in _HUMP.findall(piece)]
        for part in parts:
            word = part.lower()
            # A single letter says nothing; a single digit may be an exit code.
            if word not in STOP_WORDS and (len(word) > 1 or word.isdigit() or not word.isascii()):
                yield stem(word)[:LONGEST_TERM]
        if len(parts) > 1:
            yield name.lower()[:LONGEST_TERM]


def stem(word: str) -> str:
    """Take the commonest English endings off, so that "retries" finds "retry", "failed" finds "fail"."""
    if len(word) < 5 or not word.isascii() or not word.isalpha():
        return word[:-1] if len(word) == 4 and word.endswith("s") and not word.endswith("ss") else word
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("s", "")):
        if word.endswith(ending) and not (ending == "s" and word.endswith(("ss", "us", "is"))):
            return _tidy(word[: -len(ending)] + instead, ending)
    return word.removesuffix("e")


def _tidy(root: str, ending: str) -> str:
    if len(root) < 3 or not re.search("[aeiouy]", root):
        return root + ending
    if ending in {"ing", "ed"} and root[-1] == root[-2] and root[-1] not in "lsz":
        root = root[:-1]  # "stopped" -> "stop"
    return root.removesuffix("e")
