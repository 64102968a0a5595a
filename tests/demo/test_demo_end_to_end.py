"""The real `poimen demo`, once."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.stack.conftest import below, wait_until_gone

POIMEN = Path(sys.executable).with_name("poimen")


@pytest.mark.timeout(300)
async def test_the_demo_keeps_its_promise_and_leaves_nothing_running(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        POIMEN, "demo", "--json", cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr
    said = [await process.stderr.readuntil(b"worker"), await process.stderr.readuntil(b"observe")]
    started = {pid: name for pid, (name, _) in below(process.pid).items()}
    out, rest = await process.communicate()
    told = b"".join([*said, rest]).decode()
    answer = json.loads(out)

    assert (process.returncode, answer["not_held"]) == (0, []), told
    assert started
    assert wait_until_gone(started, 5) == []
    names = [run["name"] for run in answer["runs"]]
    assert names == ["observe", *(f"on-{number}" for number in range(1, len(names) - 1)), "off"]
    assert [run["workflow_id"] for run in answer["runs"]] == [f"flaky-release-{name}" for name in names]
    assert answer["scope"] == "demo/flaky-release"
    assert "runs  observe" in told
    assert all(answer["why"].values())
