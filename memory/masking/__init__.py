"""Take secrets out of text before it is stored or delivered."""

from memory.masking.masker import Finding, Masked, Masker

__all__ = ["Finding", "Masked", "Masker"]
