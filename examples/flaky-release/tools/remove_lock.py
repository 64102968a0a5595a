#!/usr/bin/env python3
"""Remove the release lock if the process that took it is gone."""

import os
from pathlib import Path

LOCK = Path("build/release.lock")


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


if __name__ == "__main__":
    if not LOCK.exists():
        raise SystemExit(0)
    holder = int(LOCK.read_text())
    if is_there(holder):
        raise SystemExit(f"error: process {holder} holds {LOCK}")
    LOCK.unlink()
    print(f"removed {LOCK} of process {holder}, which is gone")
