"""One line that grows: which runs have ended, and where the present one is."""

import shutil
import sys
from typing import TextIO


class RunsLine:
    """Writes the line; on a terminal it also tells what is going on, elsewhere only what has ended."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream, self.live = stream, stream.isatty()
        self._ended: list[str] = []

    def now(self, name: str, doing: str) -> None:
        """Tell where the present run is."""
        self._rewrite(f"{name} {doing}")

    def ended(self, name: str, seconds: float) -> None:
        """Add a run that has ended."""
        self._ended.append(f"{name} {seconds:.0f} s")
        if self.live:
            self._rewrite()
        else:
            before = "runs  " if len(self._ended) == 1 else " · "
            print(f"{before}{self._ended[-1]}", end="", file=self._stream, flush=True)

    def close(self) -> None:
        """End the line, if there is one."""
        if self._ended or self.live:
            print(file=self._stream, flush=True)

    def _rewrite(self, doing: str = "") -> None:
        if not self.live:
            return
        text = "runs  " + " · ".join([*self._ended, *([doing] if doing else [])])
        room = shutil.get_terminal_size().columns - 1
        shown = text if len(text) <= room else "…" + text[-(room - 1) :]
        print(f"\r\x1b[K{shown}", end="", file=self._stream, flush=True)
