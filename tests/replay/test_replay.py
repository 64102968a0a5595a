"""Histories of every released version replay under today's workflow code."""

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from tests.workflows.test_own_workflow import Planning
from worker.bootstrap import RUNNER
from workflows.deliver_records import DeliverRecords
from workflows.harness_run import HarnessRun
from workflows.harness_step import HarnessStep
from workflows.project_journal import ProjectJournal

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))


def test_there_are_histories_of_every_workflow() -> None:
    text = "".join(path.read_text() for path in HISTORIES)

    assert all(
        f'"name": "{name}"' in text for name in ("HarnessRun", "HarnessStep", "DeliverRecords", "ProjectJournal")
    )


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_a_recorded_history_replays(path: Path) -> None:
    known = [HarnessRun, HarnessStep, DeliverRecords, ProjectJournal, Planning]
    replayer = Replayer(workflows=known, workflow_runner=RUNNER)
    recorded = json.loads(path.read_text())  # noqa: ASYNC240  because the file is small and nothing else runs

    await replayer.replay_workflow(WorkflowHistory.from_json(recorded.pop("workflow_id"), recorded))
