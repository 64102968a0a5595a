"""Text that a person hands to a command: from a file, or from standard input."""

import sys
from pathlib import Path
from typing import Final

from worker.exits import USAGE, ExitError

HEAD_CHARACTERS: Final = 60_000
TAIL_CHARACTERS: Final = 200_000


def pasted(file: str | None) -> str:
    """Return the text, whatever its bytes; of a long one the beginning and the end.

    Raises ExitError when there is none.
    """
    text = _read(file).decode("utf-8", "replace")
    if not text.strip():
        raise ExitError("There is no text: name a FILE, or give it on standard input.", USAGE)
    left_out = len(text) - HEAD_CHARACTERS - TAIL_CHARACTERS
    if left_out <= 0:
        return text
    print(f"The text is long: {left_out:,} characters in its middle are left out.", file=sys.stderr)
    return f"{text[:HEAD_CHARACTERS]}\n{text[-TAIL_CHARACTERS:]}"


def _read(file: str | None) -> bytes:
    if file is None or file == "-":
        if sys.stdin.isatty():
            print("Paste the text, then press Ctrl-D.", file=sys.stderr)
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except FileNotFoundError:
        raise ExitError(f"{file} is not there.", USAGE) from None
    except OSError as error:
        raise ExitError(f"{file} cannot be read: {error.strerror}.", USAGE) from None
