"""Cut texts into the word pieces that the embedding model was trained on (BERT, uncased)."""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain, islice
from typing import Final

LONGEST_TEXT: Final = 20_000
"""Characters that are looked at; the model reads far fewer."""

LONGEST_WORD: Final = 100
UNKNOWN, START, END = "[UNK]", "[CLS]", "[SEP]"

# Ideographs are words of their own; other scripts of Asia are not among them.
_IDEOGRAPH = re.compile(
    "([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f\U0002b820-\U0002ceaf\U0002f800-\U0002fa1f])"
)
_BLANKS: Final = frozenset("\t\n\r")
_ASCII_CONTROLS: Final = dict.fromkeys(code for code in (*range(32), 127) if chr(code) not in _BLANKS)
_ASCII_WORD = re.compile(r"[a-z0-9]+|[^a-z0-9\s]")


def piece_ids(text: str, longest: int) -> list[int]:
    """Give the ids of a text's pieces between those of start and end, at most `longest` in all."""
    vocabulary = _vocabulary()
    pieces = chain.from_iterable(_pieces(word) for word in _words(text[:LONGEST_TEXT]))
    return [vocabulary[START], *islice(pieces, longest - 2), vocabulary[END]]


def _words(text: str) -> Iterator[str]:
    if text.isascii():
        return iter(_ASCII_WORD.findall(text.translate(_ASCII_CONTROLS).lower()))
    spaced = _IDEOGRAPH.sub(r" \1 ", "".join(_cleaned(text)))
    bare = (char for char in unicodedata.normalize("NFD", spaced) if unicodedata.category(char) != "Mn")
    return iter("".join(f" {char} " if _is_punctuation(char) else char for char in "".join(bare).lower()).split())


def _cleaned(text: str) -> Iterator[str]:
    for char in text:
        if char in _BLANKS or unicodedata.category(char) == "Zs":
            yield " "
        elif char != "\N{REPLACEMENT CHARACTER}" and unicodedata.category(char) not in {"Cc", "Cf"}:
            yield char


@lru_cache(maxsize=4096)
def _is_punctuation(char: str) -> bool:
    if char.isascii():
        return char.isprintable() and not char.isalnum() and char != " "
    return unicodedata.category(char).startswith("P")


@lru_cache(maxsize=65_536)
def _pieces(word: str) -> tuple[int, ...]:
    """Match the longest piece first, then on from its end; a word that cannot be finished is unknown as a whole."""
    vocabulary = _vocabulary()
    unknown = (vocabulary[UNKNOWN],)
    if len(word) > LONGEST_WORD:
        return unknown
    found: list[int] = []
    start = 0
    while start < len(word):
        mark = "##" if start else ""
        match = next(
            (
                (end, mark + word[start:end])
                for end in range(len(word), start, -1)
                if mark + word[start:end] in vocabulary
            ),
            None,
        )
        if match is None:
            return unknown
        start, piece = match
        found.append(vocabulary[piece])
    return tuple(found)


@cache
def _vocabulary() -> dict[str, int]:
    lines = files(__package__).joinpath("vocab.txt").read_text(encoding="utf-8").split("\n")
    return {piece: at for at, piece in enumerate(lines) if piece}
