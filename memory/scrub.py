"""Take the secrets out of a message before anything is signed, stored or answered."""

from typing import Any, Final, TypeVar

from memory.aside import aside
from memory.limits import restored
from memory.masking import Masker
from poimen.contracts.message import Message, encode

M = TypeVar("M", bound=Message)

# Names, not text: a masked name would be another name. They are short, refused when odd, and chosen by the harness.
_NAMES: Final = frozenset(
    {
        "scope",
        "tenant",
        "run",
        "branch",
        "phase",
        "step",
        "tool",
        "occurrence_id",
        "idempotency_key",
        "package_id",
        "package_ids",
        "repair",
        "repairs",
        "signature",
        "last_signature",
        "definition",
        "definition_hash",
        "id",
        "kind",
        "kinds",
        "tiers",
    }
)


async def scrub(message: M, masker: Masker) -> tuple[M, int]:
    """Give the message without secrets in its texts, and how many were found.

    A mark may be longer than what it hides: a text that no longer fits its field is cut, and ends in " [cut]".
    """
    return await aside(_characters(message), _fitting, message, masker)


def _fitting(message: M, masker: Masker) -> tuple[M, int]:
    clean, found = _scrubbed(message, masker)
    return (restored(type(clean), encode(clean)) if found else clean), found


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Message):
        return sum(_characters(getattr(value, name)) for name in type(value).model_fields)
    if isinstance(value, dict):
        return sum(_characters(name) + _characters(item) for name, item in value.items())
    return sum(map(_characters, value)) if isinstance(value, list | tuple) else 0


def _scrubbed(message: M, masker: Masker) -> tuple[M, int]:
    found = 0
    changed: dict[str, Any] = {}
    for name in type(message).model_fields:
        if name in _NAMES:
            continue
        value = getattr(message, name)
        clean, here = _clean(value, masker)
        if here:
            changed[name], found = clean, found + here
    return (message.model_copy(update=changed) if changed else message), found


def _clean(value: Any, masker: Masker) -> tuple[Any, int]:
    if isinstance(value, str):
        masked = masker.mask(value)
        return masked.text, len(masked.findings)
    if isinstance(value, Message):
        return _scrubbed(value, masker)
    if isinstance(value, tuple):
        parts = [_clean(part, masker) for part in value]
        return tuple(part for part, _ in parts), sum(count for _, count in parts)
    if isinstance(value, dict):
        clean, findings = masker.mask_json(value)
        return clean, len(findings)
    return value, 0


def scrub_warning(found: int) -> tuple[str, ...]:
    """Give the sentence that tells a caller what was masked."""
    if not found:
        return ()
    return (f"{found} secret{'' if found == 1 else 's'} masked",)
