"""The log profile: one template for the lines that one log statement writes, with nothing learned."""

from __future__ import annotations

import re

from memory.signatures.clean import HEAD_CHARACTERS, visible

_LOG = re.compile(
    r"(?P<url>\b[a-zA-Z][\w+.-]{1,20}://[^\s\"'<>)\]]+)"
    r"|(?P<word>[^\s,;()\[\]{}=:\"'|]*\d[^\s,;()\[\]{}=:\"'|]*)"
)


def log_template(text: str) -> str:
    """Return the line with its variable parts replaced by `<*>`."""
    words = visible(text[:HEAD_CHARACTERS])
    return " ".join(_LOG.sub("<*>", words).split())
