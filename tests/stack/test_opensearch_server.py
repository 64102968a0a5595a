"""The local OpenSearch: what it needs of the machine, what it is put together from, and that it ends."""

import asyncio
import os
import sys
from pathlib import Path

import httpx
import pytest

from memory.settings import OpenSearchSettings
from memory.vectors.index import Document, Query, begin_first
from memory.vectors.opensearch import OpenSearchIndex
from tests.fixtures_opensearch import CACHE
from tests.stack.conftest import below, wait_until_gone
from tests.vectors.hashed import HashedEmbedder
from worker.stack import opensearch_build
from worker.stack.opensearch import OpenSearchPorts, RunningOpenSearch
from worker.stack.opensearch import opensearch_server as run_opensearch
from worker.stack.opensearch_build import MissingToolError, assembled_server, find_java
from worker.stack.state import StackError, choose_ports

PROGRAM = Path(__file__).with_name("opensearch_program.py")
ROOT = Path(__file__).parents[2]


def jdk(folder: Path, version: str, *, full: bool = True) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "release").write_text(f'IMPLEMENTOR="Anybody"\nJAVA_VERSION="{version}"\n')
    for name in ("java", "javac") if full else ("java",):
        (folder / "bin" / name).touch(mode=0o755)
    return folder


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No JDK and no Maven; JDKs are looked for in the returned folder."""
    monkeypatch.setattr(opensearch_build, "_JVM_FOLDERS", (f"{tmp_path}/jvm/*",))
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path / "jvm"


def test_the_newest_jdk_is_found_when_the_one_that_is_named_is_too_old(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(jdk(bare_machine / "seventeen", "17.0.15")))
    jdk(bare_machine / "twenty-one", "21")
    jdk(bare_machine / "without-compiler", "99.0.1", full=False)
    newest = jdk(bare_machine / "twenty-five", "25.0.3")
    assert find_java() == newest


def test_the_jdk_that_is_named_goes_before_a_newer_one(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jdk(bare_machine / "twenty-five", "25.0.3")
    named = jdk(bare_machine.with_name("own"), "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(named))
    assert find_java() == named


def test_a_machine_without_a_jdk_is_told_which_package_to_install(bare_machine: Path) -> None:
    jdk(bare_machine / "seventeen", "17.0.15")
    with pytest.raises(MissingToolError, match=r"JDK of version 21 or newer.*the package openjdk-21-jdk-headless"):
        find_java()


async def test_a_machine_without_maven_is_told_which_package_to_install(bare_machine: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingToolError, match="install the package maven"):
        await assembled_server(tmp_path / "cache", jdk(bare_machine / "any", "25"))


def test_a_file_that_is_not_the_expected_one_is_named(tmp_path: Path) -> None:
    for line in opensearch_build._SUMS.read_text().splitlines():
        file = tmp_path / line.partition("  ")[2]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"another")
    with pytest.raises(StackError, match=r"the first is lib/HdrHistogram-[\d.]+jar\."):
        opensearch_build._check(tmp_path)


async def test_a_node_answers_with_its_nearest_neighbours(opensearch_server: RunningOpenSearch) -> None:
    async with httpx.AsyncClient(base_url=opensearch_server.url) as client:
        plugins = (await client.get("/_cat/plugins", params={"format": "json"})).json()
    assert [plugin["component"] for plugin in plugins] == ["opensearch-knn"]


async def test_it_ends_with_its_starter_and_keeps_what_it_acknowledged(
    opensearch_server: RunningOpenSearch, tmp_path: Path
) -> None:
    ports = OpenSearchPorts(*choose_ports(["http", "transport"]).values())
    argv = [sys.executable, str(PROGRAM), str(tmp_path), str(ports.http), str(ports.transport)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE, env=environment)
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().strip()
    index = OpenSearchIndex(OpenSearchSettings(urls=(url,), request_seconds=60), HashedEmbedder())
    await begin_first(index, "t", deadline_seconds=60)
    kept = Document(tenant="t", scope="s", id="kept", kind="lesson", level="L1", text="acknowledged words", version=1)
    assert [one.outcome for one in await index.put([kept], deadline_seconds=60)] == ["stored"]
    await index.close()
    left = {pid: name for pid, (name, _) in below(process.pid).items()}
    assert "java" in left.values()
    process.kill()
    await process.wait()
    assert await asyncio.to_thread(wait_until_gone, left, 30.0) == []
    again = run_opensearch(tmp_path / "server", ports=ports, log=tmp_path / "log", cache=CACHE, short_lived=True)
    async with again:
        found = await index.search(Query(tenant="t", scope="s", text="acknowledged words"), deadline_seconds=60)
        assert [hit.id for hit in found.hits] == ["kept"]
        await index.close()
