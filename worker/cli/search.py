"""`poimen search`: look knowledge up."""

import argparse
from datetime import UTC, datetime

from memory.knowledge import search
from memory.scopes import scopes
from memory.stores import Caller, Stores
from poimen.contracts.definition import LIBRARY
from poimen.contracts.memory_calls import RememberedItem, SearchKnowledge, SearchResult
from poimen.contracts.message import decode, encode
from worker.cli.opened import opened_stores, operator
from worker.cli.output import ago, one_line, print_json

DEADLINE_MS = 5_000


async def run(arguments: argparse.Namespace) -> int:
    """Search one scope, or every scope of the tenant; notes come last."""
    async with opened_stores() as stores:
        caller = operator(stores, arguments.tenant)
        places = (arguments.scope,) if arguments.scope else await scopes(stores, caller.tenant)
        found = [(scope, await _search(arguments, scope, caller, stores)) for scope in places or (LIBRARY,)]
    ranked = _ranked(found)[: arguments.limit]
    if arguments.json:
        print_json({"items": [{"scope": scope, **encode(item)} for scope, item in ranked], "empty": _empty(found)})
        return 0
    for scope, item in ranked:
        print(_line(scope, item, several=len(found) > 1))
    if not ranked:
        print("\n".join(_empty(found)))
    return 0


async def _search(arguments: argparse.Namespace, scope: str, caller: Caller, stores: Stores) -> SearchResult:
    asked = {"scope": scope, "query": arguments.query, "limit": arguments.limit, "deadline_ms": DEADLINE_MS}
    return await search(decode(SearchKnowledge, asked, "search").message, caller, stores)


def _ranked(found: list[tuple[str, SearchResult]]) -> list[tuple[str, RememberedItem]]:
    # A note of the library is found from every scope.
    first = {item.id: (scope, item) for scope, result in reversed(found) for item in reversed(result.items)}
    return sorted(first.values(), key=lambda entry: -(entry[1].score or 0.0))


def _empty(found: list[tuple[str, SearchResult]]) -> list[str]:
    return [f"nothing in {scope}: {result.empty_because}" for scope, result in found if not result.items]


def _line(scope: str, item: RememberedItem, *, several: bool) -> str:
    score = f"{item.score:.2f}".removeprefix("0") if item.score is not None else "note"
    age = ago((datetime.now(UTC) - item.recorded_at).total_seconds())
    where = f"  in {scope}" if several and item.score is not None else ""
    return f"{score:<4}  {item.kind:<9}  {item.id}  {one_line(item.title)} ({item.trust}, {age}){where}"
