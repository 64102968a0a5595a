"""OpenSearch with its k-NN plugin as a child process: one node on loopback, without TLS and without users."""

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from worker.stack.account import Account, choose_account
from worker.stack.child import Child, ChildError, ChildSpec, PortTakenError, read_log_end, running
from worker.stack.opensearch_build import assembled_server, default_cache, find_java, java_version
from worker.stack.state import own_folder

HEAP_MEGABYTES: Final = 512
_READY_SECONDS: Final = 300.0
_ASK_SECONDS: Final = 5.0
_WARNS_OF_UNSAFE: Final = 24  # the Java version from which on the memory access that Netty uses needs a flag
# A failed start ends with a long stack trace below the line that says why.
_LOG_LINES: Final = 200
_PROGRAM: Final = "org.opensearch.bootstrap.OpenSearch"
# The second compiler takes a third of the processor time of a start.
_FOR_A_SHORT_LIFE: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_FOLDERS: Final = ("config", "data", "logs", "tmp")

_LOGGING: Final = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%c{1.}] %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


@dataclass(frozen=True)
class OpenSearchPorts:
    """Loopback ports of the HTTP interface and of the one between nodes."""

    http: int
    transport: int


@dataclass(frozen=True)
class RunningOpenSearch:
    """A node that answers; anybody on this machine may ask it."""

    host: str
    port: int
    child: Child

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


@contextlib.asynccontextmanager
async def opensearch_server(
    folder: Path,
    *,
    ports: OpenSearchPorts,
    log: Path,
    held: Sequence[int] = (),
    cache: Path | None = None,
    short_lived: bool = False,
) -> AsyncIterator[RunningOpenSearch]:
    """Run a node on loopback for the length of a block, with its files below `folder`.

    The server itself is kept in `cache`, put together the first time. `short_lived` is for tests: it starts with less
    work, answers more slowly, and its end is a kill. Raises `MissingToolError` without a JDK or Maven, `StackError`
    when it cannot run here.
    """
    java = find_java()
    home = await assembled_server(cache or default_cache(), java)
    own_folder(folder)
    program = java / "bin" / "java"
    account = await choose_account(program, folder / "data", name="OpenSearch", reads=[home / "lib"])
    _prepare(folder, ports, account)
    spec = ChildSpec(
        "OpenSearch",
        [
            *account.prefix,
            str(program),
            *_options(home, folder, java),
            *(_FOR_A_SHORT_LIFE if short_lived else ()),
            _PROGRAM,
        ],
        log,
        stop_signal=signal.SIGKILL if short_lived else signal.SIGTERM,
        grace_seconds=30.0,
        held=held,
    )
    log_start = _size(log)
    url = f"http://127.0.0.1:{ports.http}"
    async with running(spec) as child:
        await _ready(child, url, log_start)
        yield RunningOpenSearch("127.0.0.1", ports.http, child)


async def _ready(child: Child, url: str, log_start: int) -> None:
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=_ASK_SECONDS) as client:
        try:
            await child.ready_when(_HealthProbe(client), _READY_SECONDS)
        except ChildError as error:
            if "address already in use" in read_log_end(child.spec.log, log_start, _LOG_LINES).lower():
                raise PortTakenError(str(error)) from None
            raise


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


class _HealthProbe:
    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def __call__(self) -> bool:
        try:
            answer = await self._client.get("/_cluster/health", params={"wait_for_status": "yellow", "timeout": "1s"})
        except httpx.HTTPError:
            return False
        return answer.status_code == httpx.codes.OK


def _prepare(folder: Path, ports: OpenSearchPorts, account: Account) -> None:
    for name in _FOLDERS:
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    settings = {
        "cluster.name": "poimen",
        "node.name": "local",
        "discovery.type": "single-node",
        "network.host": "127.0.0.1",
        "http.port": ports.http,
        "transport.port": ports.transport,
        "path.data": folder / "data",
        "path.logs": folder / "logs",
        # A laptop's disk may be fuller than a server's, and the default refuses writes at 95 %.
        "cluster.routing.allocation.disk.threshold_enabled": "false",
        # A name written wrong must not make an index without our mapping.
        "action.auto_create_index": "false",
    }
    config = folder / "config"
    (config / "opensearch.yml").write_text("".join(f'{name}: "{value}"\n' for name, value in settings.items()))
    (config / "log4j2.properties").write_text(_LOGGING)
    if account.owner is not None:
        folder.chmod(0o711)  # so that the other user can pass through; what is in it stays closed
        for name in _FOLDERS:
            os.chown(folder / name, *account.owner)
        for file in config.iterdir():
            os.chown(file, *account.owner)


def _options(home: Path, folder: Path, java: Path) -> list[str]:
    unsafe = ["--sun-misc-unsafe-memory-access=allow"] if java_version(java) >= _WARNS_OF_UNSAFE else []
    properties = {
        "file.encoding": "UTF-8",
        "java.awt.headless": "true",
        "java.io.tmpdir": folder / "tmp",
        "jna.tmpdir": folder / "tmp",
        "jna.nosys": "true",
        "io.netty.noUnsafe": "true",
        "io.netty.noKeySetOptimization": "true",
        "io.netty.recycler.maxCapacityPerThread": "0",
        "log4j.shutdownHookEnabled": "false",
        "log4j2.disable.jmx": "true",
        "opensearch.path.home": home,
        "opensearch.path.conf": folder / "config",
        "opensearch.distribution.type": "tar",
        "opensearch.bundled_jdk": "false",
    }
    return [
        f"-Xms{HEAP_MEGABYTES}m",
        f"-Xmx{HEAP_MEGABYTES}m",
        "-Xss1m",
        "-XX:+ExitOnOutOfMemoryError",
        f"-XX:ErrorFile={folder / 'logs' / 'java-error-%p.log'}",
        "--add-modules=jdk.incubator.vector",
        "--enable-native-access=ALL-UNNAMED",
        *unsafe,
        *(f"-D{name}={value}" for name, value in properties.items()),
        "-cp",
        str(home / "lib" / "*"),
    ]
