"""Each step of the example fails for its own reason, and is cured by what the definition says and by nothing before."""

import asyncio
import http.client
import importlib.util
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio

from memory.signatures import sign
from poimen.contracts.definition import Check, Repair, Run, Step
from worker.definitions import load_definition
from worker.demo.starting_state import EXAMPLE, starting_state

STEPS = {step.id: step for phase in load_definition(EXAMPLE / "release.yaml").phases for step in phase.steps}
REPAIRABLE = sorted(step.id for step in STEPS.values() if step.repairs)


@pytest_asyncio.fixture(loop_scope="session")
async def workspace(tmp_path: Path) -> AsyncIterator[Path]:
    """A workspace in its starting state."""
    async with starting_state(tmp_path / "workspace", tmp_path / "log"):
        yield tmp_path / "workspace"


async def _command(body: Run | Check | Repair, folder: Path) -> tuple[int, str]:
    assert body.command
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"
    process = await asyncio.create_subprocess_exec(
        *body.command,
        cwd=folder,
        env={"PATH": path, **body.env},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def _attempt(step: Step, folder: Path) -> tuple[bool, str]:
    """Run and verify, as an attempt does; tell whether it passed, and what was printed."""
    code, output = await _command(step.run, folder)
    if code == 0 and step.verify is not None:
        code, output = await _command(step.verify, folder)
    return code == 0, output


@pytest.mark.parametrize("name", REPAIRABLE)
async def test_only_the_repair_that_may_run_before_cures_the_step(name: str, workspace: Path) -> None:
    step = STEPS[name]
    passed = [(await _attempt(step, workspace))[0]]
    for repair in step.repairs:
        assert (await _command(repair, workspace))[0] == 0
        passed.append((await _attempt(step, workspace))[0])

    assert passed == [False] * len(step.repairs) + [True]
    assert [repair.before for repair in step.repairs] == [False] * (len(step.repairs) - 1) + [True]


async def test_those_repairs_prevent_the_failures_and_may_run_twice(workspace: Path) -> None:
    cures = {name: STEPS[name].repairs[-1] for name in REPAIRABLE}

    exits = {name: [(await _command(cure, workspace))[0] for _ in range(2)] for name, cure in cures.items()}
    passed = {name: (await _attempt(STEPS[name], workspace))[0] for name in REPAIRABLE}

    assert exits == {name: [0, 0] for name in REPAIRABLE}
    assert passed == dict.fromkeys(REPAIRABLE, True)


SAYS = {
    "install": "ModuleNotFoundError: No module named 'changelog_tools'",
    "serve": "Address already in use",
    "unlock": "FileExistsError: ",
    "generate": "error: docs/commands.md is out of date",
    "publish": "HTTP/1.1 429 Too Many Requests",
    "sign": "ExpiredKeyError: key release expired on 2024-06-30",
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def first_outputs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """What each step prints in its first attempt, in two places."""
    places = []
    for _ in range(2):
        folder = tmp_path_factory.mktemp("demo")
        async with starting_state(folder / "workspace", folder / "log"):
            await _command(STEPS["generate"].run, folder / "workspace")  # the pages, which are uploaded and signed
            places.append({name: (await _attempt(step, folder / "workspace"))[1] for name, step in STEPS.items()})
    return places


@pytest.mark.parametrize("name", STEPS)
def test_a_step_fails_as_a_real_tool_does_and_alike_in_every_run(
    name: str, first_outputs: list[dict[str, str]]
) -> None:
    one, another = (outputs[name] for outputs in first_outputs)

    assert SAYS[name] in one
    assert sign(one).key == sign(another).key


async def test_a_lock_whose_process_lives_is_not_removed(workspace: Path) -> None:
    lock = workspace / "build/release.lock"
    lock.write_text(str(os.getpid()))

    code, output = await _command(STEPS["unlock"].repairs[-1], workspace)

    assert code == 1
    assert f"error: process {os.getpid()} holds" in output
    assert lock.exists()


async def test_a_busy_registry_takes_the_upload_after_the_time_it_asked_for_and_not_before() -> None:
    with _registry() as (registry, server):
        assert _put(server) == (429, "6")
        server.takes_at += 100
        assert _put(server)[0] == 429
        server.takes_at = registry.time.monotonic()
        assert _put(server) == (201, None)


async def test_every_start_is_the_same_but_for_ports_and_process_ids(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    async with starting_state(folder, tmp_path / "log"):
        first = _files(folder)
        (folder / "docs/commands.md").write_text("changed")
        (folder / "site").mkdir()
    async with starting_state(folder, tmp_path / "log"):
        second = _files(folder)

    assert first.keys() == second.keys()
    changed = {name for name in first if first[name] != second[name]}
    assert changed <= {"build/release.lock", "ports/preview", "ports/registry"}


async def test_what_runs_beside_the_steps_ends_with_them(tmp_path: Path) -> None:
    async with starting_state(tmp_path / "workspace", tmp_path / "log"):
        ports = [int((tmp_path / "workspace/ports" / name).read_text()) for name in ("preview", "registry")]
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


def _files(folder: Path) -> dict[str, bytes]:
    found = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
    return {name: file.read_bytes() for name, file in found.items() if "__pycache__" not in name}


@contextmanager
def _registry() -> Iterator[tuple[ModuleType, Any]]:
    spec = importlib.util.spec_from_file_location("demo_registry", EXAMPLE / "tools/registry.py")
    assert spec
    assert spec.loader
    registry = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(registry)
    with registry.Registry(("127.0.0.1", 0), registry.Requests) as server:
        server.files = {}
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield registry, server
        finally:
            server.shutdown()
            thread.join()


def _put(server: Any) -> tuple[int, str | None]:
    connection = http.client.HTTPConnection(*server.server_address, timeout=5)
    connection.request("PUT", "/releases/pages", b"pages")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, answer.getheader("Retry-After")
