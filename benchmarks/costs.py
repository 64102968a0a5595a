"""What memory costs, as ratios measured in one run; milliseconds are shown beside them and mean this machine only."""

import statistics
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.common import RetryPolicy

from benchmarks.servers import QUEUE, Bench
from memory.journal import Event, EventKind, Origin, Provenance, record
from memory.postgres import tenant_transaction

Figures = dict[str, Any]
LIMIT = timedelta(seconds=10)


@activity.defn(name="Nothing")
async def nothing(_message: dict[str, Any]) -> dict[str, Any]:
    """Do nothing; what is left is Temporal's own cost."""
    return {}


@workflow.defn(name="CallMany", sandboxed=False)  # because it is part of a script, not of the product
class CallMany:
    """Calls two activities in turn and times each in its own process's clock."""

    @workflow.run
    async def run(self, asked: dict[str, Any]) -> dict[str, list[float]]:
        """Return the milliseconds of every call by the activity's name; `numbered` calls are runs of their own."""
        took: dict[str, list[float]] = {name: [] for name in asked["activities"]}
        for number in range(asked["times"]):
            run = {"run": f"{workflow.info().workflow_id}-{number}"} if asked.get("numbered") else {}
            for name in asked["activities"]:
                # Not deterministic, and not replayed: the workflow stays in the cache for its short life.
                began = time.perf_counter()
                await workflow.execute_activity(
                    name,
                    {**asked["message"], **run},
                    start_to_close_timeout=LIMIT,
                    retry_policy=RetryPolicy(maximum_attempts=1),
                )
                took[name].append((time.perf_counter() - began) * 1000)
        return took


async def step_with_memory(bench: Bench, times: int) -> Figures:
    """Compare a healthy step with memory and without: wall time, events, bytes of history."""
    seen: dict[str, list[tuple[float, int, int]]] = {"on": [], "off": []}
    for _ in range(times):
        for mode, found in seen.items():
            found.append(await _step(bench, mode))
    on, off = (tuple(statistics.median(column) for column in zip(*seen[mode], strict=True)) for mode in ("on", "off"))
    names = ("wall_ms", "events", "bytes")
    return {
        "on": dict(zip(names, on, strict=True)),
        "off": dict(zip(names, off, strict=True)),
        "ratio": {name: round(a / b, 2) for name, a, b in zip(names, on, off, strict=True)},
    }


async def context_against_nothing(bench: Bench, times: int) -> Figures:
    """Compare GetContext with an empty activity on the same queue."""
    for number in range(20):
        await _step(bench, "on", script=f"echo 'ValueError: no key {number % 3}'; exit 1")
    message = {"scope": "bench", "step": "build", "task": "build it", "budget_left": {"attempts": 3}}
    took = await bench.client.execute_workflow(
        CallMany.run,
        {"activities": ["Nothing", "GetContext"], "message": message, "times": times},
        id=f"calls-{uuid.uuid4().hex[:8]}",
        task_queue=QUEUE,
    )
    return ratio(took["GetContext"], took["Nothing"])


async def append_against_insert(bench: Bench, times: int) -> Figures:
    """Compare a journal append, exactly once and with its outbox row, with a bare insert in a like transaction."""
    payload = {"error": "x" * 2_000, "step": "build"}

    async def append() -> None:
        key = uuid.uuid4().hex
        event = Event(
            tenant="local",
            scope="bench",
            kind=EventKind.ERROR_ANALYZED,
            provenance=Provenance(key=key, origin=Origin.CALLER, workflow_id="bench", run_id="bench"),
            payload=payload,
            run="bench",
        )
        async with tenant_transaction(bench.stores.pool, "local", deadline_seconds=5) as tx:
            await record(tx, event)

    async def insert() -> None:
        async with tenant_transaction(bench.stores.pool, "local", deadline_seconds=5) as tx:
            await tx.run(_INSERT, fingerprint=uuid.uuid4().hex, parts=payload)

    took = await in_turn({"append": append, "insert": insert}, times)
    return ratio(took["append"], took["insert"])


async def step_without_postgres(bench: Bench, times: int) -> Figures:
    """Compare a step whose memory is down, refusing or black-holed, with a step without memory."""
    await bench.proxy.refuse()
    refused = [await _step(bench, "on") for _ in range(times)]
    await bench.proxy.pass_on()
    bench.proxy.black_hole()
    swallowed = [await _step(bench, "on") for _ in range(times)]
    await bench.proxy.pass_on()
    off = [await _step(bench, "off") for _ in range(times)]
    return {
        "refused": ratio([one[0] for one in refused], [one[0] for one in off]),
        "black_holed": ratio([one[0] for one in swallowed], [one[0] for one in off]),
    }


_INSERT = "INSERT INTO environments (tenant, fingerprint, parts) VALUES (%(tenant)s, %(fingerprint)s, %(parts)s)"


async def _step(bench: Bench, mode: str, script: str = "true") -> tuple[float, int, int]:
    workflow_id = f"step-{uuid.uuid4().hex[:8]}"
    message = {
        "scope": "bench",
        "memory": mode,
        "workspace": str(bench.folder),
        "executor_queue": f"{QUEUE}-executor",
        "retry": {"attempts": 1},
        "step": {"id": "build", "run": {"command": ["/bin/sh", "-c", script]}},
    }
    began = time.perf_counter()
    handle = await bench.client.start_workflow("HarnessStep", message, id=workflow_id, task_queue=QUEUE)
    if script == "true":
        await handle.result()
    description = await _closed(bench, workflow_id)
    took = (time.perf_counter() - began) * 1000
    return took, description.history_length, description.raw_description.workflow_execution_info.history_size_bytes


async def _closed(bench: Bench, workflow_id: str) -> Any:
    handle = bench.client.get_workflow_handle(workflow_id)
    async for _ in handle.fetch_history_events(wait_new_event=True):
        pass
    return await handle.describe()


async def in_turn(calls: Mapping[str, Callable[[], Awaitable[None]]], times: int) -> dict[str, list[float]]:
    """Call each in turn, several times, and give the milliseconds of every call by name."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(times):
        for name, call in calls.items():
            began = time.perf_counter()
            await call()
            took[name].append((time.perf_counter() - began) * 1000)
    return took


def ratio(measured: list[float], against: list[float]) -> Figures:
    """Give the medians of two lists of milliseconds, and their ratio."""
    ours, theirs = statistics.median(measured), statistics.median(against)
    return {"median_ms": round(ours, 2), "against_ms": round(theirs, 2), "ratio": round(ours / theirs, 2)}
