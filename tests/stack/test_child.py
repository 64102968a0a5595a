import sys
from pathlib import Path

import pytest

from worker.stack.child import ChildError, ChildSpec, packaged_program, run_once, running
from worker.stack.state import StackError


def python(script: str, log: Path, **options: float) -> ChildSpec:
    return ChildSpec("the child", [sys.executable, "-c", script], log, grace_seconds=options.get("grace", 10))


async def never() -> bool:
    return False


async def test_an_early_end_gives_the_last_log_lines_of_this_start(tmp_path: Path) -> None:
    log = tmp_path / "logs/child.log"
    for word in ("first", "second"):
        with pytest.raises(ChildError, match="the child ended with exit code 3") as caught:
            async with running(python(f"print('{word} start'); raise SystemExit(3)", log)) as child:
                await child.ready_when(never, timeout_seconds=30)
    assert "second start" in str(caught.value)
    assert "first start" not in str(caught.value)


async def test_a_child_that_is_never_ready_is_ended_at_the_time_out(tmp_path: Path) -> None:
    with pytest.raises(ChildError, match=r"not ready after 0\.2 s"):
        async with running(python("import time; time.sleep(600)", tmp_path / "log")) as child:
            await child.ready_when(never, timeout_seconds=0.2)
    assert child.exited.done()


async def test_a_child_that_ignores_the_stop_signal_is_killed_after_its_grace(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = (
        "import signal, time, pathlib; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"pathlib.Path({str(ready)!r}).touch(); time.sleep(600)"
    )

    async def is_ready() -> bool:
        return ready.exists()

    async with running(python(script, tmp_path / "log", grace=0.2)) as child:
        await child.ready_when(is_ready, timeout_seconds=30)
        assert await child.stop() == 128 + 9


async def test_a_program_that_is_not_there_is_an_early_end(tmp_path: Path) -> None:
    with pytest.raises(ChildError, match="cannot start /nowhere/program: No such file"):
        async with running(ChildSpec("it", ["/nowhere/program"], tmp_path / "log")) as child:
            await child.ready_when(never, timeout_seconds=30)


async def test_a_failing_program_says_why() -> None:
    with pytest.raises(ChildError, match="exit code 4: no luck"):
        await run_once(["sh", "-c", "echo no luck >&2; exit 4"])


def test_a_package_that_is_not_installed_is_named() -> None:
    with pytest.raises(StackError, match="needs the package no-such-package"):
        packaged_program("no-such-package", "bin/program")
