"""The servers a benchmark runs against: real, fresh, on loopback, gone afterwards."""

import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import structlog
from temporalio.client import Client
from temporalio.worker import Worker

from activities.boundary import MemoryActivities
from executors.activities import ExecutorActivities
from executors.settings import ExecutorSettings
from memory.postgres.migrate import migrate
from memory.settings import MemorySettings
from memory.stores import Stores, build_stores
from tests.tcp_proxy import TcpProxy, open_proxy
from worker.bootstrap import RUNNER, WORKFLOWS
from worker.stack.postgres import RunningPostgres, postgres_server
from worker.stack.state import choose_ports
from worker.stack.temporal import TemporalPorts, temporal_server

QUEUE = "bench"


@dataclass(frozen=True)
class Bench:
    """A running stack: memory reaches Postgres through the proxy, which a benchmark may break."""

    client: Client
    stores: Stores
    proxy: TcpProxy
    folder: Path


@contextlib.asynccontextmanager
async def bench(
    *, more_activities: tuple[object, ...] = (), more_workflows: tuple[type, ...] = ()
) -> AsyncIterator[Bench]:
    """Start PostgreSQL, Temporal, a memory worker and an executor in this process."""
    # The figures go to stdout.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    async with contextlib.AsyncExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory()))
        ports = choose_ports(["postgres", "grpc", "http"])
        postgres = await parts.enter_async_context(
            postgres_server(folder / "postgres", port=ports["postgres"], log=folder / "postgres.log")
        )
        await migrate(postgres.owner_dsn)
        temporal = await parts.enter_async_context(
            temporal_server(
                TemporalPorts(ports["grpc"], ports["http"]), log=folder / "temporal.log", folder=folder / "t"
            )
        )
        proxy = await open_proxy(postgres.host, postgres.port)
        parts.push_async_callback(proxy.close)
        stores = _stores(postgres, proxy, folder)
        await stores.pool.open()
        parts.push_async_callback(stores.pool.close)
        client = await Client.connect(temporal.address)
        executor = ExecutorSettings(
            host="bench", queue=f"{QUEUE}-executor", state_dir=folder / "executor", workspace_roots=(folder,)
        )
        memory = [*MemoryActivities(stores).all(), *more_activities]
        work = ExecutorActivities(executor).all()
        for queue, activities, workflows in (
            (QUEUE, memory, (*WORKFLOWS, *more_workflows)),
            (f"{QUEUE}-executors", work, ()),
            (executor.queue, work, ()),
        ):
            worker = Worker(
                client, task_queue=queue, activities=activities, workflows=workflows, workflow_runner=RUNNER
            )
            await parts.enter_async_context(worker)
        yield Bench(client, stores, proxy, folder)


def _stores(postgres: RunningPostgres, proxy: TcpProxy, folder: Path) -> Stores:
    (folder / "vault").mkdir()
    settings = MemorySettings(
        postgres_dsn=postgres.app_dsn.replace(f":{postgres.port}/", f":{proxy.port}/"),
        masking_key=b"a key for benchmarks",
        vault_path=folder / "vault",
    )
    return build_stores(settings)
