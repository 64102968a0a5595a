"""`poimen doctor`: check everything a run depends on, and say what to do about what is wrong."""

import argparse
import dataclasses
from dataclasses import dataclass
from typing import Final

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.service import RPCError

from memory.errors import SchemaMismatch, StoreUnavailable
from memory.health import health
from memory.postgres import check_database
from memory.stores import Stores
from worker.cli.opened import opened_stores
from worker.cli.output import one_line, print_json
from worker.exits import DEPENDENCY_DOWN, OK, SCHEMA, TemporalDown
from worker.found_stack import NOTHING_RUNS, load_settings, why_nowhere
from worker.options import SettingsError
from worker.search_attributes import create_command, missing_search_attributes
from worker.settings import Settings
from worker.temporal_client import connect, count_pollers
from workflows.executor_calls import claim_queue

# A broken front matter quotes lines of its file.
_LONGEST_DETAIL: Final = 1_000


@dataclass(frozen=True)
class Finding:
    """One line: `state` is ok, degraded, down or wrong."""

    state: str
    part: str
    detail: str


async def run(arguments: argparse.Namespace) -> int:
    """Exit with 0 when runs have memory, 3 when something is down, 4 when the schema does not fit."""
    settings = load_settings()
    findings = await _findings(settings)
    if arguments.json:
        print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        # Details name files of the vault, and a file may be named anything.
        print("\n".join(f"{one.state:<9} {one.part:<18} {one_line(one.detail, _LONGEST_DETAIL)}" for one in findings))
    states = {finding.state for finding in findings}
    return SCHEMA if "wrong" in states else DEPENDENCY_DOWN if "down" in states else OK


async def _findings(settings: Settings) -> list[Finding]:
    nowhere = why_nowhere(settings)
    if nowhere is None:
        return [*await _temporal(settings), *await _memory(settings)]
    memory = Finding("down", "memory", nowhere)
    temporal = await _temporal(settings)
    # Where nothing was named, that the default address is silent too is no second trouble.
    alone = nowhere == NOTHING_RUNS and temporal[0].state == "down"
    return [Finding("down", "stack", nowhere)] if alone else [*temporal, memory]


async def _temporal(settings: Settings) -> list[Finding]:
    try:
        client = await connect(settings, quiet=True)
        missing = await missing_search_attributes(client)
        memory = await count_pollers(client, settings.task_queue, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW)
        claims = claim_queue(settings.task_queue)
        executors = await count_pollers(client, claims, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY)
    except TemporalDown as error:
        return [Finding("down", "temporal", str(error))]
    except RPCError as error:
        return [Finding("down", "temporal", error.message)]
    attributes = f"missing; run: {create_command(missing)}" if missing else "all there"
    return [
        Finding("ok", "temporal", f"{client.service_client.config.target_host}, namespace {client.namespace}"),
        Finding("down" if missing else "ok", "search attributes", attributes),
        _polled("memory worker", settings.task_queue, memory, "poimen worker --role memory"),
        _polled("executor", claims, executors, "poimen worker --role executor"),
    ]


def _polled(part: str, queue: str, pollers: int, command: str) -> Finding:
    if pollers:
        return Finding("ok", part, f"{pollers} polled queue {queue} in the last minutes")
    return Finding("down", part, f"nobody polls queue {queue}; start one: {command}")


async def _memory(settings: Settings) -> list[Finding]:
    try:
        async with opened_stores(settings) as stores:
            return [await _database(stores), *await _tiers(stores)]
    except SettingsError as error:
        return [Finding("down", "memory", str(error))]


async def _database(stores: Stores) -> Finding:
    try:
        await check_database(stores.pool, deadline_seconds=3.0)
    except SchemaMismatch as error:
        return Finding("wrong", "postgres", str(error))
    except StoreUnavailable as error:
        return Finding("down", "postgres", f"{error} Runs go on without memory; their records are kept.")
    return Finding("ok", "postgres", "schema up to date, row-level security on")


async def _tiers(stores: Stores) -> list[Finding]:
    report = await health(stores.settings.default_tenant, stores)
    return [Finding(tier.health, f"tier {tier.tier}", tier.detail) for tier in report.tiers]
