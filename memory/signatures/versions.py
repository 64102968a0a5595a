"""The rules that keys were made with: the current ones and, frozen, those of the version before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from memory import signatures_s1
from memory.signatures.signature import VERSION, Profile, Signature, sign

Rules = Callable[[str, Profile], Signature]


def _current(text: str, profile: Profile) -> Signature:
    return sign(text, profile=profile)


def _s1(text: str, profile: Profile) -> Signature:
    frozen = signatures_s1.sign(text, profile=profile)
    return Signature(**{field.name: getattr(frozen, field.name) for field in fields(Signature)})


RULES: dict[str, Rules] = {VERSION: _current, signatures_s1.VERSION: _s1}
"""Version → its rules, the current one first. A version that was raised is frozen in a package."""


def signatures_of(text: str, *, profile: Profile = "error") -> tuple[Signature, ...]:
    """Return a text's signature by the current rules, then by each earlier version's that is still known."""
    return tuple(rules(text, profile) for rules in RULES.values())


def version_of(key: str) -> str:
    """Return the version that a key names, "" where it names none."""
    version, colon, _ = key.partition(":")
    return version if colon else ""
