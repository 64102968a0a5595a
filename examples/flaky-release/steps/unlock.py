#!/usr/bin/env python3
"""Tag the version under the release lock; with --die take the lock and end without giving it back."""

import os
import sys
from pathlib import Path

LOCK = Path("build/release.lock")


def take_lock() -> None:
    LOCK.parent.mkdir(exist_ok=True)
    descriptor = os.open(LOCK, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    os.write(descriptor, str(os.getpid()).encode())
    os.close(descriptor)


def tag() -> None:
    version = Path("CHANGELOG.md").read_text().split("\n## ")[1].split()[0]
    Path("build/tag.txt").write_text(f"v{version}\n")
    print(f"tagged v{version}")


if __name__ == "__main__":
    take_lock()
    if "--die" in sys.argv:
        os._exit(0)
    tag()
    LOCK.unlink()
