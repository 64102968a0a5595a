"""The frozen rules of `s1` keys: never changed, and dropped with the version after the next."""

from memory.signatures_s1.signature import VERSION, sign

__all__ = ["VERSION", "sign"]
