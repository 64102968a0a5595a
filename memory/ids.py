"""Names of what memory keeps: stable ids of items, and what people see of them."""

import hashlib
import re
import secrets
import time
import uuid
from typing import Final

from poimen.contracts.vocabulary import ItemKind

SHOWN_DIGITS: Final = 8
_SHOWN = re.compile(r"[a-z]{3}-[0-9a-f]{8,64}")


def item_id(kind: ItemKind, *identity: str) -> str:
    """Give the id of an item: three letters of its kind and the SHA-256 of what identifies it.

    Everybody who means the same thing makes the same id, so that a repeated event changes nothing.
    """
    # Lengths first: ("ab", "c") and ("a", "bc") are two things.
    text = "".join(f"{len(part)}:{part}" for part in identity)
    return f"{kind[:3]}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()}"


def shown(item: str) -> str:
    """Give what people see of an item's id: `les-7f3c21d0`."""
    return item[: 4 + SHOWN_DIGITS] if _SHOWN.fullmatch(item) else item


def may_be_item(text: str) -> bool:
    """Say whether a text has the form of an item's id, whole or shortened."""
    return _SHOWN.fullmatch(text) is not None


def package_id() -> str:
    """Give a new context package its id: `ctx-` and a UUID of version 7, so that ids sort by time."""
    milliseconds = int(time.time() * 1000)
    value = milliseconds << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)
    return f"ctx-{uuid.UUID(int=value).hex}"
