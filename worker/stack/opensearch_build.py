"""OpenSearch for the local stack, put together from packages: found, fetched, checked by hash, kept.

No archive of the whole server is in a package index, but all that it is made of is.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from worker.settings import environment
from worker.stack.child import run_once
from worker.stack.state import StackError

LEAST_JAVA: Final = 21
_FETCH_SECONDS: Final = 900.0
_POM: Final = Path(__file__).with_name("opensearch.pom.xml")
_SUMS: Final = Path(__file__).with_name("opensearch.sums")
_VERSION: Final = re.compile(r"opensearch-core-([\d.]+)\.jar")
_JAVA_VERSION: Final = re.compile(r'^JAVA_VERSION="(\d+)', re.MULTILINE)
_JVM_FOLDERS: Final = ("/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home")

# The published modules carry no descriptor: name, class, and what it extends.
_MODULES: Final = (
    ("transport-netty4", "org.opensearch.transport.Netty4ModulePlugin", ""),
    ("lang-painless", "org.opensearch.painless.PainlessModulePlugin", ""),
    ("analysis-common", "org.opensearch.analysis.common.CommonAnalysisModulePlugin", "lang-painless"),
)
# The k-NN plugin extends the module transport-grpc, which is not published, and names these types of it in the
# signatures of a class that the server reads; nothing calls them without that module.
_GRPC_TYPES: Final = {
    "org/opensearch/transport/grpc/spi/QueryBuilderProtoConverter.java": (
        "package org.opensearch.transport.grpc.spi; public interface QueryBuilderProtoConverter {}"
    ),
    "org/opensearch/transport/grpc/spi/QueryBuilderProtoConverterRegistry.java": (
        "package org.opensearch.transport.grpc.spi; public interface QueryBuilderProtoConverterRegistry {}"
    ),
    "org/opensearch/protobufs/QueryContainer.java": (
        "package org.opensearch.protobufs; public class QueryContainer { public enum QueryContainerCase {} }"
    ),
}


class MissingToolError(StackError):
    """What OpenSearch needs of the machine is not there; the message names the package."""


def default_cache() -> Path:
    """Return where assembled servers are kept unless a setting names another folder."""
    own = environment().get("XDG_CACHE_HOME")
    return (Path(own) if own else Path.home() / ".cache").absolute() / "poimen"


def find_java() -> Path:
    """Return the home of a JDK that can run the server: JAVA_HOME, the one on the path, or the newest installed.

    Raises `MissingToolError` when there is none.
    """
    named = environment().get("JAVA_HOME")
    on_path = shutil.which("javac")
    chosen = [Path(named)] if named else []
    if on_path:
        chosen.append(Path(on_path).resolve().parents[1])
    installed = [home for pattern in _JVM_FOLDERS for home in Path("/").glob(pattern.lstrip("/"))]
    for home in [*chosen, *sorted(installed, key=java_version, reverse=True)]:
        if java_version(home) >= LEAST_JAVA and (home / "bin" / "javac").exists():
            return home
    raise MissingToolError(
        f"OpenSearch needs a JDK of version {LEAST_JAVA} or newer, and JAVA_HOME, the path and /usr/lib/jvm have none. "
        f"Install one, such as the package openjdk-{LEAST_JAVA}-jdk-headless."
    )


def java_version(home: Path) -> int:
    """Return the feature version of the JDK in a folder, or 0 when there is none."""
    try:
        found = _JAVA_VERSION.search((home / "release").read_text())
    except OSError:
        return 0
    return int(found[1]) if found else 0


async def assembled_server(cache: Path, java: Path) -> Path:
    """Return the home of a server in the cache, put together the first time; callers at once wait for one another.

    Raises `MissingToolError` without Maven, `StackError` when a file is not the one its hash names.
    """
    recipe = _POM.read_text() + _SUMS.read_text() + repr((_MODULES, _GRPC_TYPES))
    stamp = hashlib.sha256(recipe.encode()).hexdigest()
    home = cache / f"opensearch-{_version()}-{stamp[:12]}"
    if home.exists():
        return home
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingToolError("OpenSearch is put together by Maven, which is not here: install the package maven.")
    async with _alone(cache):
        if not home.exists():
            with tempfile.TemporaryDirectory(prefix="assembling-", dir=cache) as scratch:
                await _assemble(Path(scratch), maven, java)
                (Path(scratch) / "server").rename(home)
    return home


async def _assemble(scratch: Path, maven: str, java: Path) -> None:
    server = scratch / "server"
    server.mkdir()
    fetch = [
        maven, "--batch-mode", "--quiet", "--strict-checksums", "--file", str(_POM),
        f"-Dopensearch.home={server}", f"-Dmaven.repo.local={scratch / 'repository'}", "package",
    ]  # fmt: skip
    await run_once(fetch, timeout_seconds=_FETCH_SECONDS)
    shutil.rmtree(server / ".markers", ignore_errors=True)
    await asyncio.to_thread(_check, server)
    for name, entry_class, extends in _MODULES:
        (server / "modules" / name / "plugin-descriptor.properties").write_text(_descriptor(name, entry_class, extends))
    knn = server / "plugins" / "opensearch-knn"
    descriptor = knn / "plugin-descriptor.properties"
    text = re.sub(r"(?m)^extended\.plugins=.*$", "extended.plugins=lang-painless", descriptor.read_text())
    descriptor.write_text(text)
    await _add_grpc_types(scratch / "classes", knn / "no-transport-grpc.jar", java)


def _check(server: Path) -> None:
    wanted = {name: digest for digest, _, name in (line.partition("  ") for line in _SUMS.read_text().splitlines())}
    found = {file.relative_to(server).as_posix(): _sha256(file) for file in server.rglob("*") if file.is_file()}
    if differing := sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)):
        raise StackError(
            f"What Maven fetched is not the OpenSearch that is expected; {len(differing)} files differ, "
            f"the first is {differing[0]}."
        )


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _descriptor(name: str, entry_class: str, extends: str) -> str:
    fields = {
        "name": name,
        "description": name,
        "version": _version(),
        "opensearch.version": _version(),
        "java.version": str(LEAST_JAVA),
        "classname": entry_class,
        "extended.plugins": extends,
        "has.native.controller": "false",
    }
    return "".join(f"{key}={value}\n" for key, value in fields.items())


async def _add_grpc_types(work: Path, jar: Path, java: Path) -> None:
    sources = [work / "sources" / name for name in _GRPC_TYPES]
    for source, text in zip(sources, _GRPC_TYPES.values(), strict=True):
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
    compiled = work / "compiled"
    javac = [str(java / "bin" / "javac"), "--release", str(LEAST_JAVA), "-d", str(compiled), *map(str, sources)]
    await run_once(javac)
    with zipfile.ZipFile(jar, "w") as archive:
        for file in sorted(compiled.rglob("*.class")):
            archive.write(file, file.relative_to(compiled).as_posix())


def _version() -> str:
    found = _VERSION.search(_SUMS.read_text())
    assert found is not None
    return found[1]


@contextlib.asynccontextmanager
async def _alone(cache: Path) -> AsyncIterator[None]:
    """Hold the cache folder for the length of a block, over all processes; waits for its turn."""
    descriptor = _open_lock(cache)
    try:
        # In a thread, because another process may need minutes to fetch.
        await asyncio.to_thread(fcntl.flock, descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _open_lock(cache: Path) -> int:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        return os.open(cache / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StackError(f"The folder {cache} cannot be used: {error.strerror}.") from None
