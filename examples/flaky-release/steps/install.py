#!/usr/bin/env python3
"""Write the release notes: the newest section of the changelog."""

from pathlib import Path

import changelog_tools

notes = Path("build/notes.md")
notes.parent.mkdir(exist_ok=True)
notes.write_text(changelog_tools.latest(Path("CHANGELOG.md").read_text()))
print(f"wrote {notes}")
