"""Failure signatures: a pure, versioned key for the shape of an error output or a log line."""

from memory.signatures.signature import VERSION, Signature, error_signature, log_signature, sign

__all__ = ["VERSION", "Signature", "error_signature", "log_signature", "sign"]
