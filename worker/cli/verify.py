"""`poimen verify`: compare the journal, the items, the index and the vault."""

import argparse
import dataclasses
import json
from collections.abc import Mapping
from typing import Final

from memory.compare import Difference
from memory.stores import Stores
from memory.verify import Verified, verify
from poimen.contracts.problems import counted
from worker.cli.opened import opened_stores
from worker.cli.output import one_line
from worker.exits import FAILED, OK

_LONGEST_LINE: Final = 500


async def run(arguments: argparse.Namespace) -> int:
    """Print every difference as it is found; exit with 1 when there is one."""
    differences = 0
    async with opened_stores() as stores:
        tenants = [stores.settings.tenant_of(arguments.tenant)] if arguments.tenant else stores.settings.tenants
        out = _Json() if arguments.json else _Lines()
        for tenant in tenants:
            differences += await _verified(stores, tenant, out)
        out.end(differences)
    return FAILED if differences else OK


class _Lines:
    """Prints for a person."""

    def difference(self, tenant: str, found: Difference) -> None:
        where = " ".join(part for part in (found.scope, found.id) if part)
        print(one_line(f"{tenant} {found.part} {where}: {found.detail}", _LONGEST_LINE), flush=True)

    def compared(self, tenant: str, index: str, verified: Verified, differences: int) -> None:
        counts = ", ".join(counted(number, name) for name, number in _singular(verified.counts).items())
        waiting = f"; the index has still to follow {counted(verified.waiting, 'item')}" if verified.waiting else ""
        said = counted(differences, "difference") if differences else "no difference"
        generation = "none" if verified.generation is None else verified.generation
        print(f"{tenant}: {counts} compared ({index}, generation {generation}): {said}{waiting}")

    def end(self, differences: int) -> None:
        """Nothing follows."""


class _Json:
    """Prints one JSON value, as it grows: its parts are never all in memory."""

    def __init__(self) -> None:
        self._compared: list[Mapping[str, object]] = []
        self._first = True
        print('{"differences": [', end="")

    def difference(self, tenant: str, found: Difference) -> None:
        text = json.dumps({"tenant": tenant, **dataclasses.asdict(found)}, ensure_ascii=False)
        print(text if self._first else f", {text}", end="", flush=True)
        self._first = False

    def compared(self, tenant: str, index: str, verified: Verified, differences: int) -> None:
        told = {"tenant": tenant, "index": index, "generation": verified.generation, "waiting": verified.waiting}
        self._compared.append({**told, "differences": differences, "counts": dict(verified.counts)})

    def end(self, differences: int) -> None:
        print(f'], "count": {differences}, "compared": {json.dumps(self._compared, ensure_ascii=False)}}}')


async def _verified(stores: Stores, tenant: str, out: _Lines | _Json) -> int:
    verified, differences = Verified(), 0
    async for difference in verify(stores, tenant, verified):
        out.difference(tenant, difference)
        differences += 1
    out.compared(tenant, stores.index.name, verified, differences)
    return differences


def _singular(counts: Mapping[str, int]) -> dict[str, int]:
    names = {"events": "event", "items": "item", "entries": "indexed document", "notes": "note"}
    return {names[name]: number for name, number in counts.items()}
