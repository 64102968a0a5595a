"""Which rules a line can need, remembered by the line without its digits: lines of one statement differ in those most.

A rule has marks of which one must stand in the words. No mark has a digit, so a mark that stands in a line stands in it
without its digits too, and what is left out here cannot apply. What is left in is asked again by the line itself.
"""

from __future__ import annotations

_DIGITS = b"0123456789"
_CHARACTERS = 300


def without_digits(words: str) -> bytes | None:
    """Return the line without its digits, or None where it is too long to be remembered or is not all ASCII."""
    if len(words) > _CHARACTERS or not words.isascii():
        return None
    return words.encode().translate(None, _DIGITS)


def stands(marks: tuple[str, ...], words: str) -> bool:
    """Whether one of the marks stands in the words."""
    for mark in marks:  # noqa: SIM110 -- a generator costs more than most of its steps
        if mark in words:
            return True
    return False
