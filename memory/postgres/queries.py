"""Named SQL from files.

A file is a list of statements, each under its name and what it does::

    -- name: find_event
    -- Finds the event recorded under one key.
    select ...

Modules load their file once as ``SQL`` and refer to ``SQL["find_event"]``.
"""

import re
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import LiteralString, cast

_NAME = re.compile(r"^-- name: ([a-z][a-z0-9_]*)$", re.MULTILINE)
_DESCRIPTION = re.compile(r"\s*(?:-- .*\n)+")


def load_queries(package: str, file: str) -> Mapping[str, LiteralString]:
    """Return the statements of one ``.sql`` file of a package, by name.

    They count as literal: their text is the program's own, and values only ever reach them as parameters.
    Raises ValueError for a statement without description, a name used twice, or text before the first name.
    """
    text = files(package).joinpath(file).read_text(encoding="utf-8")
    before, *parts = _NAME.split(text)
    if before.strip():
        raise ValueError(f"{file}: text before the first name.")
    queries: dict[str, LiteralString] = {}
    for name, block in zip(parts[::2], parts[1::2], strict=True):
        head = _DESCRIPTION.match(block)
        statement = block[head.end() :].strip() if head else ""
        if not statement:
            raise ValueError(f"{file}: {name} needs a description line and a statement.")
        if name in queries:
            raise ValueError(f"{file}: {name} is named twice.")
        queries[name] = cast(LiteralString, statement)
    return MappingProxyType(queries)
