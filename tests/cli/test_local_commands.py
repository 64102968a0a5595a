"""`poimen up` to `poimen down`, in a folder of its own."""

import asyncio
import json
import re
import signal
from pathlib import Path

from tests.worker.running import POIMEN, clean_environment, run_program, until_there

TINY = "name: tiny\nscope: acme/api\nphases: [{id: T0, steps: [{id: one, run: {command: [sh, -c, pwd]}}]}]\n"


async def started(folder: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        str(POIMEN),
        "up",
        "--json",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=clean_environment({}),
        cwd=folder,
    )


async def test_commands_below_the_folder_of_a_running_stack_find_it(tmp_path: Path) -> None:
    stack = await started(tmp_path)
    assert stack.stdout is not None
    addresses = json.loads(await stack.stdout.readline())
    assert addresses["state"] == str(tmp_path / ".poimen")
    second = await run_program(str(POIMEN), "up", variables={}, cwd=tmp_path)
    assert (second.code, second.out) == (3, "")
    assert f"process {addresses['pid']}; it runs at temporal_address {addresses['temporal_address']}" in second.err
    below = tmp_path / "a/b"
    below.mkdir(parents=True)
    (below / "tiny.yaml").write_text(TINY)
    ran = await run_program(str(POIMEN), "run", "tiny.yaml", "--json", variables={}, cwd=below)
    assert (ran.code, ran.json["end"]) == (0, "succeeded")
    assert ran.json["link"].startswith(addresses["ui_url"])
    down = await run_program(str(POIMEN), "down", "--json", variables={}, cwd=tmp_path)
    assert down.json == {"stopped": True, "pid": addresses["pid"]}
    _, said = await stack.communicate()
    assert stack.returncode == 0
    assert re.search(r"queue poimen, [1-9]\d* note files\n$", said.decode())
    assert [line.split()[:2] for line in said.decode().splitlines()] == [
        ["[1/3]", "PostgreSQL"],
        ["[2/3]", "Temporal"],
        ["[3/3]", "worker"],
    ]


async def test_a_stop_while_the_stack_is_starting_ends_it_in_order(tmp_path: Path) -> None:
    stack = await started(tmp_path)
    await until_there(tmp_path / ".poimen/postgres/data.new")
    stack.send_signal(signal.SIGINT)
    out, _ = await stack.communicate()
    assert (stack.returncode, out) == (0, b"")
    down = await run_program(str(POIMEN), "down", variables={}, cwd=tmp_path)
    assert down.out == "No stack runs here.\n"
