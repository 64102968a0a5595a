import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from executors.attempt_folder import attempt_folder, clear_abandoned
from executors.command import run_command

ROOT = Path(__file__).parents[2]

# Runs one command as a worker would, and says how much memory that took at most.
WORKER = """
import asyncio, json, resource, sys
from pathlib import Path
from executors.command import run_command
from executors.settings import ExecutorSettings
from poimen.contracts.execution import RunCommand

state, workspace, path, *argv = sys.argv[1:]
settings = ExecutorSettings(host="here", queue="q", state_dir=Path(state), workspace_roots=(Path(workspace),),
                            base_environment={"PATH": path})
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
request = RunCommand(argv=argv, run="r", step="s", timeout_seconds=100.0)
result = asyncio.run(run_command(request, settings))
print(json.dumps({"grown": peak() - before, "bytes": result.output_bytes, "stored": result.output.bytes,
                  "head": result.head, "tail": result.tail}))
"""


async def start_worker(settings, *argv):
    folders = [settings.state_dir, settings.workspace_roots[0], settings.base_environment["PATH"]]
    arguments = ["-c", WORKER, *map(str, folders), *argv]
    return await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE)


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_the_attempt_ends_with_the_command_and_ends_its_children(settings, command, workspace, is_gone):
    script = "sleep 300 & echo $! > child; echo done"
    result = await run_command(command("sh", "-c", script), settings)
    assert (result.end, result.exit_code, result.head) == ("exited", 0, "done\n")
    assert result.warnings == ("processes that outlived the command and were ended: 1",)
    assert is_gone(int((workspace / "child").read_text()))


async def test_a_child_that_left_the_session_and_its_environment_is_ended(settings, command, workspace, is_gone):
    script = "env -i setsid sh -c 'echo $$ > child; exec sleep 300' & while [ ! -s child ]; do :; done; echo done"
    result = await run_command(command("sh", "-c", script), settings)
    assert (result.end, result.head) == ("exited", "done\n")
    assert is_gone(int((workspace / "child").read_text()))


async def test_a_daemon_that_forked_twice_is_ended(settings, command, workspace, is_gone):
    script = "(setsid sh -c '(echo $$ > child; exec sleep 300) &' &) ; while [ ! -s child ]; do :; done"
    result = await run_command(command("sh", "-c", script), settings)
    assert result.end == "exited"
    assert len(result.warnings) == 1
    assert is_gone(int((workspace / "child").read_text()))


async def test_a_left_over_that_ignores_term_is_killed(settings, command, workspace, is_gone):
    script = "sh -c \"trap '' TERM; echo \\$\\$ > child; while :; do sleep 0.05; done\" &"
    script += " while [ ! -s child ]; do :; done"
    await run_command(command("sh", "-c", script), settings)
    assert is_gone(int((workspace / "child").read_text()))


async def test_a_command_may_signal_its_own_group(settings, command):
    result = await run_command(command("sh", "-c", "echo before; kill -TERM 0; sleep 300"), settings)
    assert (result.end, result.signal, result.head) == ("signaled", signal.SIGTERM, "before\n")


async def test_a_command_that_kills_its_keeper_is_ended_and_reported(settings, command, workspace, is_gone):
    script = "echo $$ > self; setsid sh -c 'echo $$ > child; exec sleep 300' & while [ ! -s child ]; do :; done;"
    script += " kill -9 $PPID; exec sleep 300"
    result = await run_command(command("sh", "-c", script), settings)
    assert (result.end, result.detail) == ("signaled", "the command's keeper was killed")
    assert is_gone(int((workspace / "self").read_text()))
    assert is_gone(int((workspace / "child").read_text()))


async def test_a_stopped_keeper_does_not_hold_the_attempt_for_ever(settings, command, monkeypatch):
    monkeypatch.setattr("executors.process._LATE_SECONDS", 0.3)
    request = command("sh", "-c", "kill -STOP $PPID; exec sleep 300", timeout_seconds=0.3)
    result = await run_command(request, settings)
    assert (result.end, result.detail) == ("timed_out", "the command was ended after 0.3 s")


async def test_cancelling_ends_the_command_before_it_is_reported(settings, command, workspace, read_pid, is_running):
    beats = []
    script = "trap 'echo tidied > note; exit 0' TERM; echo $$ > self; while :; do sleep 0.02; done"
    task = asyncio.create_task(run_command(command("sh", "-c", script), settings, lambda: beats.append(1)))
    pid = await asyncio.to_thread(read_pid, workspace / "self")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_running(pid)
    assert (workspace / "note").read_text() == "tidied\n"
    assert beats


async def test_cancelling_kills_what_ignores_term(settings, command, workspace, read_pid, is_running):
    script = "trap '' TERM; echo $$ > self; while :; do sleep 0.02; done"
    task = asyncio.create_task(run_command(command("sh", "-c", script), settings))
    pid = await asyncio.to_thread(read_pid, workspace / "self")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_running(pid)


async def test_nothing_of_a_command_survives_its_killed_worker(settings, workspace, read_pid, is_gone):
    script = "setsid sh -c 'echo $$ > escaped; exec sleep 300' & echo $$ > self; trap '' TERM; sleep 300; sleep 300"
    worker = await start_worker(settings, "sh", "-c", script)
    pids = [read_pid(workspace / "self"), read_pid(workspace / "escaped")]
    worker.kill()
    await worker.communicate()
    assert all(is_gone(pid) for pid in pids)


async def test_what_a_killed_worker_left_is_cleared_at_the_next_start(settings, workspace, read_pid, is_gone):
    worker = await start_worker(settings, "sh", "-c", "echo $PPID > keeper; echo $$ > self; exec sleep 300")
    keeper, pid = read_pid(workspace / "keeper"), read_pid(workspace / "self")
    with attempt_folder(settings.state_dir) as in_use:
        assert clear_abandoned(settings.state_dir) == 0
        # Stopped, the keeper cannot do its work: the case of both being killed at once.
        os.kill(keeper, signal.SIGSTOP)
        worker.kill()
        await worker.communicate()
        assert clear_abandoned(settings.state_dir) == 1
        assert is_gone(pid)
        assert in_use.path.exists()
    os.kill(keeper, signal.SIGKILL)
    assert list((settings.state_dir / "attempts").iterdir()) == []


async def test_a_huge_output_leaves_the_worker_small(settings):
    size = 300_000_000
    worker = await start_worker(settings, "sh", "-c", f"yes 0123456789abcdef | head -c {size}; echo the end")
    output, _ = await worker.communicate()
    told = json.loads(output)
    assert told["bytes"] == told["stored"] == size + len("the end\n")
    assert told["tail"].endswith("the end\n")
    assert told["grown"] < 40_000_000


async def test_many_commands_run_side_by_side(settings, command):
    requests = [command("sh", "-c", f"sleep 0.2; echo {number}") for number in range(12)]
    results = await asyncio.gather(*(run_command(request, settings) for request in requests))
    assert [result.head for result in results] == [f"{number}\n" for number in range(12)]


async def test_no_descriptor_is_left_open(settings, command):
    await run_command(command("true"), settings)
    before = open_descriptors()
    for _ in range(5):
        await run_command(command("sh", "-c", "echo x", prompt="p"), settings)
        await run_command(command("no-such-program"), settings)
        await run_command(command("echo", "a\0b"), settings)
    await asyncio.sleep(0)
    assert open_descriptors() <= before


async def test_a_keeper_that_cannot_start_is_the_executors_fault(settings, command, monkeypatch):
    monkeypatch.setattr("executors.process.sys.executable", "/bin/false")
    with pytest.raises(OSError, match="keeper did not start"):
        await run_command(command("true"), settings)
