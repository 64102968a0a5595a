#!/usr/bin/env python3
"""Pack the pages for the upload."""

import tarfile
from pathlib import Path

target = Path("build/pages.tar")
target.parent.mkdir(exist_ok=True)
with tarfile.open(target, "w") as archive:
    archive.add("docs")
print(f"packed {target}")
