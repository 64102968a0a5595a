"""Failure signatures: a pure, versioned key for the shape of an error output or a log line."""

from memory.signatures.signature import VERSION, Signature, error_signature, log_signature, sign
from memory.signatures.versions import signatures_of, version_of

__all__ = ["VERSION", "Signature", "error_signature", "log_signature", "sign", "signatures_of", "version_of"]
