"""The demonstration beside a stack that runs already."""

import dataclasses
from pathlib import Path

import pytest

from tests.demo.conftest import demo_run
from worker.demo.main import _check_first
from worker.demo.stack import demo_stack, is_own
from worker.exits import ExitError
from worker.stack.state import Holder, StateFolder, hold
from worker.stack.up import Addresses

ELSEWHERE = Addresses(**{field.name: "" for field in dataclasses.fields(Addresses)} | {"pid": 1})


async def test_a_stack_that_runs_here_is_used_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = dataclasses.replace(ELSEWHERE, ui_url="http://ui.example", task_queue="poimen")
    async with hold(StateFolder.create(tmp_path)) as lock:
        lock.publish(dataclasses.replace(Holder.current(), addresses=dataclasses.asdict(kept)))
        async with demo_stack(tmp_path, tmp_path / "demo") as found:
            assert found == kept
    said = "The stack of process 1 runs here already (http://ui.example): this uses it, and leaves it running.\n"
    assert capsys.readouterr().err == said
    assert not is_own(found)


async def test_a_stack_that_is_still_starting_is_told_with_what_to_do(tmp_path: Path) -> None:
    async with hold(StateFolder.create(tmp_path)):
        with pytest.raises(ExitError, match=r"it is still starting\. Wait until it is up, or end it \(poimen down\)"):
            async with demo_stack(tmp_path, tmp_path / "demo"):
                raise AssertionError


def test_a_kept_stack_that_runs_no_command_here_is_told_at_the_first_run() -> None:
    refused = dataclasses.replace(demo_run("observe"), end="failed", reason="the workspace is outside the roots")
    with pytest.raises(
        ExitError, match=r"demo-observe failed: the workspace is outside the roots\. Perhaps the stack of"
    ):
        _check_first(refused, ELSEWHERE)


async def test_a_kept_stack_without_opensearch_is_not_taken_for_one_with_it(tmp_path: Path) -> None:
    async with hold(StateFolder.create(tmp_path)) as lock:
        lock.publish(dataclasses.replace(Holder.current(), addresses=dataclasses.asdict(ELSEWHERE)))
        with pytest.raises(ExitError, match=r"runs without OpenSearch; end it first \(poimen down\)"):
            async with demo_stack(tmp_path, tmp_path / "demo", opensearch=True):
                raise AssertionError
