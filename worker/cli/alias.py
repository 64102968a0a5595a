"""`poimen alias`: let a signature stand for another, list what stands for what, and undo it."""

import argparse
from dataclasses import asdict

from memory.aliases import Alias, AliasRequest, alias, aliases, unalias
from memory.stores import Stores
from worker.cli.opened import opened_stores, operator
from worker.cli.output import one_line, print_json, table
from worker.exits import USAGE, ExitError

_ONE_OF_THREE = "Give two signatures, or --list, or --undo with one signature."


async def run(arguments: argparse.Namespace) -> int:
    """Make an alias, end one, or list those in force."""
    two = arguments.signature is not None and arguments.stands_for is not None
    if [two, arguments.list, arguments.undo is not None].count(True) != 1 or (arguments.signature and not two):
        raise ExitError(_ONE_OF_THREE, USAGE)
    async with opened_stores() as stores:
        if arguments.list:
            return await _list(arguments, stores)
        if arguments.undo is not None:
            return await _undo(arguments, stores)
        return await _make(arguments, stores)


async def _make(arguments: argparse.Namespace, stores: Stores) -> int:
    request = AliasRequest(
        signature=arguments.signature,
        stands_for=arguments.stands_for,
        scope=arguments.scope,
        reason=arguments.reason,
    )
    made = await alias(request, operator(stores, arguments.tenant), stores)
    further = f", and so for {made.root}" if made.root != made.stands_for else ""
    _tell(arguments, made, f"{made.signature} stands for {made.stands_for} in {made.scope}{further}.")
    return 0


async def _undo(arguments: argparse.Namespace, stores: Stores) -> int:
    ended = await unalias(arguments.undo, arguments.scope, operator(stores, arguments.tenant), stores)
    _tell(arguments, ended, f"{ended.signature} stands for itself again in {ended.scope}.")
    return 0


async def _list(arguments: argparse.Namespace, stores: Stores) -> int:
    found = await aliases(stores, stores.settings.tenant_of(arguments.tenant), arguments.scope)
    if arguments.json:
        print_json([asdict(one) for one in found])
    elif not found:
        print("No signature stands for another.")
    else:
        print(table(("signature", "stands for", "scope", "by", "reason"), [_row(one) for one in found]))
    return 0


def _tell(arguments: argparse.Namespace, one: Alias, sentence: str) -> None:
    if arguments.json:
        print_json(asdict(one))
    else:
        print(sentence)


def _row(one: Alias) -> tuple[str, ...]:
    return (one.signature, one.root, one.scope, one.principal or "memory", one_line(one.reason) or "none given")
