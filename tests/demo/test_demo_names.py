"""Each demonstration has a name of its own, for its runs, its folder and its scope."""

import uuid
from pathlib import Path

from temporalio.client import Client

from worker.demo.main import _new_folder


async def test_the_first_one_has_the_plain_name_and_later_ones_are_numbered(
    temporal_client: Client, tmp_path: Path
) -> None:
    name = f"demo-{uuid.uuid4().hex[:8]}"

    made = [await _new_folder(temporal_client, tmp_path / "demo", name) for _ in range(3)]

    assert [folder.name for folder in made] == [name, f"{name}-2", f"{name}-3"]
    assert all(folder.is_dir() for folder in made)


async def test_a_name_that_the_history_knows_is_not_used_again(
    temporal_client: Client, tmp_path: Path, task_queue: str
) -> None:
    name = f"demo-{uuid.uuid4().hex[:8]}"
    earlier = await temporal_client.start_workflow("HarnessRun", id=f"{name}-observe", task_queue=task_queue)
    await earlier.terminate()

    folder = await _new_folder(temporal_client, tmp_path, name)

    assert folder.name == f"{name}-2"
