"""Texts that a person gives a command: a file, or standard input. Their secrets are masked before anything is done."""

import os
import sys
from pathlib import Path

from memory.masking import Masker


def given_text(file: Path | None) -> str:
    """Return the text of a file or of standard input; bytes that are no UTF-8 become U+FFFD."""
    if file is None:
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    try:
        return file.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        # Loads Temporal's client, which a command that only reads a text starts far faster without.
        from worker.exits import USAGE, ExitError  # noqa: PLC0415

        why = "is not there" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise ExitError(f"{file.name} {why}.", USAGE) from None


def without_secrets(text: str) -> str:
    """Return the text as the memory signs it; a signature is the same whatever key the marks are made with."""
    return Masker(os.urandom(16)).mask(text).text
