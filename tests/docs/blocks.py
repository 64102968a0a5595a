"""The pages a person reads, taken apart: fenced blocks in order, and the commands with the output they promise."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block. `words` follow the language: a file's name, a contract's name, or a mark."""

    page: Path
    language: str
    words: tuple[str, ...]
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The file that the reader is told to write."""
        return next((word for word in self.words if "." in word and "/" not in word), None)

    @property
    def where(self) -> str:
        return f"{self.page.name}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command as it is typed, and what the page says it prints; "…" stands for anything."""

    line: str
    shown: str

    def prints(self, output: str) -> bool:
        """Tell whether an output is what the page shows, up to white space."""
        pieces = [r"\s+".join(re.escape(word) for word in piece.split()) for piece in self.shown.split("…")]
        return re.fullmatch(r"\s*" + r"\s*.*\s*".join(pieces) + r"\s*", output, re.DOTALL) is not None


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, match[1], tuple(match[2].split()), match[3], text.count("\n", 0, match.start()) + 1)
        for match in _FENCE.finditer(text)
    ]


def commands(block: Block) -> list[Command]:
    """Return the commands of a console block."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            assert found, f"{block.where}: output before the first command"
            found[-1][1].append(line)
    return [Command(line, "\n".join(shown)) for line, shown in found]
