import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from temporalio.client import Client

from tests.stack.conftest import StackProcess, wait_for_path, wait_until_gone
from worker.stack.down import stop_holder
from worker.stack.postgres import _psql

NAMELESS = 54_321
StartStack = Callable[..., Awaitable[StackProcess]]


def starter_note(stack: StackProcess) -> Path:
    assert stack.addresses is not None
    return Path(stack.addresses["vault"], "@library", "starter.md")


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def sql(stack: StackProcess, script: str) -> str:
    assert stack.addresses is not None
    return await _psql(stack.addresses["postgres_owner_dsn"], script, {})


async def test_a_first_start_says_where_everything_is_in_one_json_line(start_stack: StartStack, tmp_path: Path) -> None:
    stack = await start_stack("state", cwd=tmp_path, worker=True)
    assert stack.addresses is not None
    assert stack.addresses["pid"] == stack.process.pid
    assert stack.addresses["state"] == str(tmp_path / "state")
    assert starter_note(stack).read_text() == "# Starter\n"
    client = await Client.connect(stack.addresses["temporal_address"])
    await client.execute_workflow("Nothing", id="one", task_queue=stack.addresses["task_queue"])
    assert await _psql(stack.addresses["postgres_dsn"], "SELECT current_user;", {}) == "poimen_app\n"
    assert await stack.end() == 0
    assert [line.split(":")[0] for line in stack.said.splitlines()] == ["PostgreSQL", "Temporal", "worker"]


async def test_the_addresses_hold_no_password(start_stack: StartStack, tmp_path: Path) -> None:
    stack = await start_stack(tmp_path / "state")
    assert stack.addresses is not None, stack.said
    said = json.dumps(stack.addresses)
    files = list((tmp_path / "state/postgres/passwords").iterdir())
    assert len(files) == 3
    for file in [*files, tmp_path / "state/masking.key"]:
        assert file.stat().st_mode & 0o077 == 0
        assert file.read_text().strip().rpartition(":")[2] not in said


async def test_a_second_start_names_the_holder_and_its_addresses(start_stack: StartStack, tmp_path: Path) -> None:
    first = await start_stack(tmp_path / "state")
    assert first.addresses is not None
    second = await start_stack(tmp_path / "state")
    assert second.addresses is None
    assert second.process.returncode == 3
    assert f"process {first.process.pid}" in second.said
    for part in ("temporal_address", "ui_url", "postgres_address"):
        assert first.addresses[part] in second.said


async def test_a_restart_keeps_ports_data_vault_and_history(start_stack: StartStack, tmp_path: Path) -> None:
    first = await start_stack(tmp_path / "state")
    assert first.addresses is not None
    await sql(first, "CREATE TABLE kept AS SELECT 7 AS seven;")
    starter_note(first).write_text("mine")
    client = await Client.connect(first.addresses["temporal_address"])
    await client.start_workflow("Nothing", id="kept", task_queue="nobody")
    await first.end()
    second = await start_stack(tmp_path / "state")
    assert second.addresses == first.addresses | {"pid": second.process.pid}
    assert await sql(second, "SELECT seven FROM kept;") == "7\n"
    assert starter_note(second).read_text() == "mine"
    again = await Client.connect(first.addresses["temporal_address"])
    assert (await again.get_workflow_handle("kept").describe()).workflow_type == "Nothing"


async def test_nothing_outlives_a_killed_parent(start_stack: StartStack, tmp_path: Path) -> None:
    stack = await start_stack(tmp_path / "state", worker=True)
    children = stack.descendants()
    assert {"postgres", "temporal"} <= set(children.values())
    await stack.kill()
    assert wait_until_gone(children, seconds=20) == []


async def test_nothing_outlives_a_killed_keeper(start_stack: StartStack, tmp_path: Path) -> None:
    stack = await start_stack(tmp_path / "state")
    children = stack.descendants()
    keepers = [pid for pid in children if _runs(pid, b"keeper.py")]
    assert len(keepers) == 2
    for pid in keepers:
        os.kill(pid, signal.SIGKILL)
    assert await asyncio.wait_for(stack.process.wait(), 30) == 3
    assert wait_until_gone(children, seconds=20) == []
    await stack.end()
    *_, said = stack.said.splitlines()
    death = r"(PostgreSQL|Temporal) died: exit code -9 \(SIGKILL\); its log is \S+\.log\. The stack ends with it; "
    assert re.match(death, said)


async def test_a_start_right_after_a_kill_of_everything_finds_its_data(start_stack: StartStack, tmp_path: Path) -> None:
    first = await start_stack(tmp_path / "state")
    await sql(first, "CREATE TABLE kept AS SELECT 7 AS seven;")
    for pid in (first.process.pid, *first.descendants()):
        with contextlib.suppress(ProcessLookupError):  # a keeper is quick to follow
            os.kill(pid, signal.SIGKILL)
    second = await start_stack(tmp_path / "state")
    assert second.addresses is not None, second.said
    assert await sql(second, "SELECT seven FROM kept;") == "7\n"


async def test_a_start_right_after_a_kill_of_the_parent_waits_for_its_children(
    start_stack: StartStack, tmp_path: Path
) -> None:
    first = await start_stack(tmp_path / "state")
    assert first.addresses is not None
    first.process.kill()
    second = await start_stack(tmp_path / "state")
    assert second.addresses is not None, second.said
    assert second.addresses == first.addresses | {"pid": second.process.pid}


async def test_a_start_killed_half_way_through_does_not_spoil_the_next(start_stack: StartStack, tmp_path: Path) -> None:
    half = tmp_path / "state/postgres/data.new"
    first = asyncio.ensure_future(start_stack(tmp_path / "state"))
    await asyncio.to_thread(wait_for_path, half)
    lock = json.loads((tmp_path / "state/lock").read_text())
    os.kill(lock["pid"], signal.SIGKILL)
    assert (await first).addresses is None
    second = await start_stack(tmp_path / "state")
    assert second.addresses is not None, second.said


async def test_a_pid_file_whose_number_another_process_got_is_no_obstacle(
    start_stack: StartStack, tmp_path: Path
) -> None:
    await (await start_stack(tmp_path / "state")).end()
    stale = f"{os.getpid()}\n{tmp_path}/state/postgres/data\n1\n1\n\n127.0.0.1\n0 0\nready\n"
    (tmp_path / "state/postgres/data/postmaster.pid").write_text(stale)
    second = await start_stack(tmp_path / "state")
    assert second.addresses is not None, second.said


async def test_a_port_taken_by_another_program_is_replaced_and_said(start_stack: StartStack, tmp_path: Path) -> None:
    first = await start_stack(tmp_path / "state")
    assert first.addresses is not None
    await first.end()
    host, port = first.addresses["postgres_address"].split(":")
    with socket.create_server((host, int(port))):
        second = await start_stack(tmp_path / "state")
        assert second.addresses is not None
        await second.end()
    assert second.addresses["postgres_address"] != first.addresses["postgres_address"]
    assert second.addresses["ui_url"] == first.addresses["ui_url"]
    assert f"port {port} of postgres is taken by another program" in second.said


async def test_down_ends_the_holder_and_everything_it_started(start_stack: StartStack, tmp_path: Path) -> None:
    stack = await start_stack(tmp_path / "state")
    children = stack.descendants()
    holder = await stop_holder(tmp_path / "state")
    assert holder is not None
    assert holder.pid == stack.process.pid
    assert wait_until_gone(children, seconds=0) == []
    assert await stack.process.wait() == 0
    assert await stop_holder(tmp_path / "state") is None


async def test_a_killed_worker_is_started_again_and_said_in_one_line(start_stack: StartStack, tmp_path: Path) -> None:
    stack = await start_stack(tmp_path / "state", worker=True)
    assert stack.addresses is not None
    children = stack.descendants()
    worker = next(pid for pid in children if _runs(pid, b"queue_poller.py") and not _runs(pid, b"keeper.py"))
    os.kill(worker, signal.SIGKILL)
    assert stack.process.stderr is not None
    *_, said = [await stack.process.stderr.readline() for _ in range(4)]
    log = tmp_path / "state/logs/worker.log"
    assert said.decode() == f"The worker died: exit code 137 (SIGKILL); its log is {log}. It is started again.\n"
    # Because a process that another starts sets no event.
    while not any(  # noqa: ASYNC110
        _runs(pid, b"queue_poller.py") for pid in stack.descendants().keys() - children.keys()
    ):
        await asyncio.sleep(0.01)
    assert await stack.end() == 0
    assert stack.said == ""


@pytest.fixture
def strangers_folder() -> Iterator[Path]:
    """A folder that a user without any rights owns."""
    if os.geteuid() != 0:
        pytest.skip("every other test here runs as a plain user already")
    made = subprocess.check_output(["mktemp", "-d", "-p", "/tmp"], user=65534, group=65534, text=True).strip()
    yield Path(made)
    shutil.rmtree(made)


@pytest.fixture
def open_folder(strangers_folder: Path) -> Path:
    """A folder that every user may write to."""
    strangers_folder.chmod(0o777)
    return strangers_folder


@pytest.fixture
def closed_folder(strangers_folder: Path) -> Path:
    """A folder that belongs to root, through which nobody else can pass."""
    folder = strangers_folder / "closed"
    folder.mkdir(mode=0o700)
    return folder


async def test_a_plain_user_can_run_it(start_stack: StartStack, strangers_folder: Path) -> None:
    await run_as(65534, start_stack, strangers_folder)


async def test_a_user_without_a_name_can_run_it(start_stack: StartStack, open_folder: Path) -> None:
    if subprocess_as(NAMELESS, ["unshare", "--user", "true"]):
        pytest.skip("PostgreSQL wants a user with a name, and user namespaces are not allowed here")
    await run_as(NAMELESS, start_stack, open_folder)


async def run_as(uid: int, start_stack: StartStack, folder: Path) -> None:
    python = _python_for_everybody()
    if python is None:
        pytest.skip("no Python of this version that other users may run")
    stack = await start_stack(
        folder / "state",
        python=python,
        user=uid,
        group=uid,
        extra_groups=[],
        env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PATH": os.defpath},
        cwd=folder,
    )
    assert stack.addresses is not None, stack.said
    assert (folder / "state").stat().st_uid == uid
    await stack.end()


def path_without(program: str, folder: Path) -> str:
    """Return a search path with every program of the usual one but this."""
    for directory in reversed(os.defpath.split(os.pathsep)):
        for file in Path(directory or ".").iterdir() if directory else ():
            if file.name != program and not (folder / file.name).is_symlink():
                (folder / file.name).symlink_to(file)
    return str(folder)


async def test_root_without_user_namespaces_uses_a_user_without_rights(
    start_stack: StartStack, strangers_folder: Path, tmp_path: Path
) -> None:
    environment = {"PATH": path_without("unshare", tmp_path)}
    first = await start_stack(strangers_folder / "state", env=environment)
    assert first.addresses is not None, first.said
    await sql(first, "CREATE TABLE kept AS SELECT 7 AS seven;")
    children = first.descendants()
    await first.kill()
    assert wait_until_gone(children, seconds=20) == []
    data = strangers_folder / "state/postgres/data"
    assert data.stat().st_uid != 0
    assert (strangers_folder / "state/vault").stat().st_mode & 0o077 == 0
    second = await start_stack(strangers_folder / "state")  # namespaces are back, the files keep their owner
    assert second.addresses is not None, second.said
    assert await sql(second, "SELECT seven FROM kept;") == "7\n"


async def test_root_with_no_way_to_become_somebody_else_is_told_so(
    start_stack: StartStack, closed_folder: Path, tmp_path: Path
) -> None:
    stack = await start_stack(closed_folder / "state", env={"PATH": path_without("unshare", tmp_path)})
    assert stack.addresses is None
    assert "Run as an ordinary user" in stack.said
    assert mode_of(closed_folder) == 0o700


def _runs(pid: int, word: bytes) -> bool:
    return word in Path(f"/proc/{pid}/cmdline").read_bytes()


def _python_for_everybody() -> str | None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"):
        if not subprocess_as(65534, [python, "-c", "import ssl"]):
            return python
    return None


def subprocess_as(uid: int, argv: list[str]) -> int:
    """Run a program as another user; return its exit code, 126 when that user may not run it."""
    try:
        return subprocess.run(argv, user=uid, group=uid, extra_groups=[], check=False).returncode
    except OSError:
        return 126
