#!/usr/bin/env python3
"""Write docs/commands.md from commands.json; with --check only tell whether it is up to date."""

import difflib
import json
import sys
from pathlib import Path

PAGE = Path("docs/commands.md")


def page() -> str:
    commands = json.loads(Path("commands.json").read_text())
    lines = [f"- `{name}`: {about}" for name, about in commands.items()]
    return "\n".join(["# Commands", "", *lines, ""])


if __name__ == "__main__":
    if "--check" not in sys.argv:
        PAGE.write_text(page())
        raise SystemExit(0)
    found, wanted = PAGE.read_text().splitlines(), page().splitlines()
    if found != wanted:
        print("\n".join(difflib.unified_diff(found, wanted, str(PAGE), f"{PAGE} (generated)", lineterm="")))
        raise SystemExit(f"error: {PAGE} is out of date")
