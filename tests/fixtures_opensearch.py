"""A real OpenSearch a session, put together once and kept in the project's cache folder."""

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from worker.stack.child import on_free_ports
from worker.stack.opensearch import OpenSearchPorts, RunningOpenSearch
from worker.stack.opensearch import opensearch_server as run_opensearch
from worker.stack.opensearch_build import MissingToolError
from worker.stack.state import choose_ports

CACHE = Path(os.environ.get("POIMEN_CACHE") or Path(__file__).parents[1] / ".cache" / "poimen")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def opensearch_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningOpenSearch]:
    """One node for the whole session; a test keeps to indices of its own, by a tenant of its own."""
    folder = tmp_path_factory.mktemp("opensearch")
    async with contextlib.AsyncExitStack() as stack:
        try:
            server = await stack.enter_async_context(
                on_free_ports(
                    lambda: OpenSearchPorts(*choose_ports(["http", "transport"]).values()),
                    lambda ports: run_opensearch(
                        folder / "server", ports=ports, log=folder / "opensearch.log", cache=CACHE, short_lived=True
                    ),
                )
            )
        except MissingToolError as error:
            # A developer's machine may be without; where every test has to run, it names the package and fails.
            (pytest.fail if os.environ.get("CI") else pytest.skip)(str(error))
        yield server
