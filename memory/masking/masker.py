"""Replace secrets in text and in structured values by a mark that keeps equal secrets equal."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Finding:
    """A secret that was found: the rule, the kind the mark names, and where it stood in the given text."""

    rule: str
    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Masked:
    """The text without its secrets, and what was found."""

    text: str
    findings: tuple[Finding, ...] = ()


class Masker:
    """Masks under one deployment's key. `[REDACTED:kind:h4]`, h4 being four hex digits of an HMAC of the secret."""

    def __init__(self, key: bytes, secrets: Iterable[str] = ()) -> None: ...

    def mask(self, text: str) -> Masked:
        """Return the text without secrets; masking masked text changes nothing."""
        raise NotImplementedError

    def mask_json(self, value: T) -> tuple[T, tuple[Finding, ...]]:
        """Return a JSON value without secrets, and what was found in it.

        Text is masked; what a telling name such as `password` holds is masked whole, whatever it looks like.
        """
        raise NotImplementedError
