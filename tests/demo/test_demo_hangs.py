"""A run that hangs ends the demonstration instead of being waited for."""

from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client

from worker.definitions import load_definition
from worker.demo.runs import RunPlan, run_once
from worker.demo.starting_state import EXAMPLE
from worker.exits import ExitError


async def test_a_run_that_does_not_end_in_time_is_ended_with_a_sentence(
    temporal_client: Client, tmp_path: Path, task_queue: str
) -> None:
    definition = load_definition(EXAMPLE / "release.yaml")
    plan = RunPlan(temporal_client, task_queue, definition, tmp_path / task_queue, timedelta(seconds=1))
    with pytest.raises(ExitError, match=rf"^{task_queue}-observe did not end in time; "):
        await run_once(plan, "observe", "observe", None)
