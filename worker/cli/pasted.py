"""Text that a person pastes into a command, as much of it as a message may carry."""

import sys
from pathlib import Path
from typing import Final

from worker.cli.texts import given_text
from worker.exits import USAGE, ExitError

HEAD_CHARACTERS: Final = 60_000
TAIL_CHARACTERS: Final = 200_000


def pasted(file: Path | None) -> str:
    """Return the text of a file or of standard input; of a long one the beginning and the end.

    Raises ExitError when there is none.
    """
    if file is None and sys.stdin.isatty():
        print("Paste the text, then press Ctrl-D.", file=sys.stderr)
    text = given_text(file)
    if not text.strip():
        raise ExitError("There is no text: name a FILE, or give it on standard input.", USAGE)
    left_out = len(text) - HEAD_CHARACTERS - TAIL_CHARACTERS
    if left_out <= 0:
        return text
    print(f"The text is long: {left_out:,} characters in its middle are left out.", file=sys.stderr)
    return f"{text[:HEAD_CHARACTERS]}\n{text[-TAIL_CHARACTERS:]}"
