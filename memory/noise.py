"""Tell a text without words from one that says something. Pure."""

import re
import unicodedata
from typing import Final

LEAST_SHARE: Final = 0.1
"""Of the characters that are no space: so many that nobody writes make a text binary."""
_WORD: Final = re.compile(r"[^\W\d_]{2}")
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# What stands for a NUL and for a byte or a half character that could not be read.
_STAND_INS: Final = "\u2400\ufffd"


def is_noise(text: str) -> bool:
    """Say whether a text is binary, or has no two letters in a row: what is like it is like it by chance."""
    plain = _ESCAPES.sub("", text)
    if _WORD.search(plain) is None:
        return True
    written = [character for character in plain if not character.isspace()]
    return sum(map(_unwritten, written)) > LEAST_SHARE * len(written)


def _unwritten(character: str) -> bool:
    return character in _STAND_INS or unicodedata.category(character) in {"Cc", "Cn", "Co", "Cs"}
