#!/usr/bin/env python3
"""Sign the release, unless its key has expired."""

import hashlib
import hmac
import json
from datetime import UTC, date, datetime
from pathlib import Path


class ExpiredKeyError(Exception):
    """The key may no longer sign."""


def load_key() -> str:
    key = json.loads(Path("keys/release.json").read_text())
    if date.fromisoformat(key["expires"]) < datetime.now(UTC).date():
        raise ExpiredKeyError(f"key {key['id']} expired on {key['expires']}")
    return str(key["id"])


if __name__ == "__main__":
    signature = hmac.new(load_key().encode(), Path("build/pages.tar").read_bytes(), hashlib.sha256)
    Path("build/pages.tar.sig").write_text(signature.hexdigest())
