"""What an executor will not do, and how it names what it could not use."""

from typing import Final

from poimen.render import plain

_LONGEST_WORD: Final = 60


class NotAllowed(Exception):
    """A request that this executor refuses for good; the text is a sentence that quotes at most the request's words."""


def named(noun: str, word: str) -> str:
    """Return `the command "make"`: a noun with the request's own word for it, plain and cut to 60 characters."""
    shown = plain(word)
    return f'{noun} "{shown if len(shown) <= _LONGEST_WORD else shown[: _LONGEST_WORD - 1] + "…"}"'
