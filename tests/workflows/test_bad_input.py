"""Bad input through the doors people use: a sentence, no endless retry, nothing stored half."""

import asyncio
import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import ActivityFailureError, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from activities.table import TABLE
from tests.fixtures_postgres import Database
from tests.worker.running import POIMEN, run_program
from tests.workflows.conftest import Harness, appears, one_phase, step

EXECUTOR = ("ClaimExecutor", "RunCommand", "RunModel")
MEMORY = tuple(entry.name for entry in TABLE if any(field.is_required() for field in entry.takes.model_fields.values()))
WORKFLOWS = ("HarnessRun", "HarnessStep", "DeliverRecords")
LIMIT = timedelta(seconds=60)


def json_text(text: str) -> RawValue:
    """A payload as it was typed, whatever it is."""
    return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=text.encode()))


NO_OBJECT: dict[str, tuple[list[Any], str]] = {
    "no input": ([], "it got none"),
    "null": ([json_text("null")], "it got null"),
    "a list": ([json_text("[]")], "it got a list"),
    "text": ([json_text('"scope"')], "it got text"),
    "a number": ([json_text("7")], "it got a number"),
    "broken JSON": ([json_text('{"scope": ')], "JSON"),
    "another encoding": ([b"\x00\xff"], "it got a payload of another encoding"),
    "two arguments": ([json_text("{}"), json_text("{}")], "it got more arguments than one"),
}
BAD = pytest.mark.parametrize(("arguments", "words"), NO_OBJECT.values(), ids=NO_OBJECT)


async def _refused(harness: Harness, workflow: str, arguments: list[Any]) -> str:
    """Start a workflow; return why it failed, once it is clear that it failed in its first task."""
    handle = await harness.client.start_workflow(
        workflow, args=arguments, id=f"bad-{uuid.uuid4().hex[:8]}", task_queue=harness.queue
    )
    with pytest.raises(WorkflowFailureError) as failed:
        await asyncio.wait_for(handle.result(), 30)
    cause = failed.value.cause
    assert isinstance(cause, ApplicationError)
    assert (cause.type, cause.non_retryable) == ("InvalidInput", True)
    assert (await handle.describe()).status == WorkflowExecutionStatus.FAILED
    kinds = [event.event_type async for event in handle.fetch_history_events()]
    assert EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED not in kinds
    assert EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED not in kinds
    return cause.message


async def _journal(database: Database) -> int:
    return int(await database.run_sql("SELECT count(*) FROM journal"))


@BAD
async def test_a_workflow_without_one_json_object_fails_at_once(
    remembering: Harness, database: Database, arguments: list[Any], words: str
) -> None:
    sentences = await asyncio.gather(*(_refused(remembering, name, arguments) for name in WORKFLOWS))

    for name, sentence in zip(WORKFLOWS, sentences, strict=True):
        assert sentence.startswith(name)
        assert words in sentence
    assert await _journal(database) == 0


async def _refused_activity(harness: Harness, queue: str, name: str, arguments: list[Any]) -> str:
    activity_id = f"bad-{uuid.uuid4().hex[:8]}"
    with pytest.raises(ActivityFailureError) as failed:
        await harness.client.execute_activity(
            name, args=arguments, id=activity_id, task_queue=queue, schedule_to_close_timeout=LIMIT
        )
    cause = failed.value.cause
    assert isinstance(cause, ApplicationError), name
    assert (cause.type, cause.non_retryable) == ("InvalidInput", True), name
    # Nothing bounds the attempts: the server would have tried again.
    assert (await harness.client.get_activity_handle(activity_id).describe()).attempt == 1
    return cause.message


@BAD
async def test_an_activity_without_one_json_object_fails_at_its_first_attempt(
    remembering: Harness, database: Database, arguments: list[Any], words: str
) -> None:
    queues = {**dict.fromkeys(MEMORY, remembering.queue), **dict.fromkeys(EXECUTOR, f"{remembering.queue}-executors")}
    calls = (_refused_activity(remembering, queue, name, arguments) for name, queue in queues.items())
    sentences = await asyncio.gather(*calls)

    for name, sentence in zip(queues, sentences, strict=True):
        assert sentence.startswith(name)
        assert words in sentence
    assert await _journal(database) == 0


async def test_an_activity_that_needs_nothing_refuses_two_arguments_too(remembering: Harness) -> None:
    sentence = await _refused_activity(remembering, remembering.queue, "HealthCheck", [{}, {}])

    assert sentence == "HealthCheck needs one JSON object; it got more arguments than one."


async def test_a_signal_with_too_many_arguments_does_not_hold_a_run_up(harness: Harness) -> None:
    go = harness.workspace / "go"
    handle = await harness.start(one_phase(step("wait", f"touch here; while [ ! -e {go} ]; do sleep 0.02; done")))
    await appears(harness.workspace / "here")
    for name, workflow_id in (("step_spent", handle.id), ("tokens_left", f"{handle.id}/wait")):
        await harness.client.get_workflow_handle(workflow_id).signal(name, args=[{}, {}])
    go.touch()

    assert (await harness.ended(handle))["end"] == "succeeded"


TRUE = {"command": ["true"]}
CYCLE = [{"id": "build", "needs": ["test"], "run": TRUE}, {"id": "test", "needs": ["build"], "run": TRUE}]
BUILD = {"id": "build", "run": TRUE}
DEFINITIONS: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown field": (
        one_phase({"id": "build", "run": {"comand": ["true"]}}),
        'definition.phases[0].steps[0].run has no field "comand"; did you mean "command"?',
    ),
    "a cycle": (one_phase(*CYCLE), "Phase T0: needs form a cycle: build → test → build."),
    "an empty scope": (one_phase(BUILD, scope=""), "definition.scope is empty; give 1 to 256 characters."),
    "a long scope": (one_phase(BUILD, scope="s" * 257), "definition.scope has 257 characters; at most 256."),
    "a NUL in the scope": (one_phase(BUILD, scope="acm\0"), "definition.scope contains U+0000 at character 4."),
    "a cwd that leaves": (
        one_phase({"id": "build", "run": {**TRUE, "cwd": "../other"}}),
        "definition.phases[0].steps[0].run.cwd leaves the workspace.",
    ),
    "a NUL in an argument": (
        one_phase({"id": "build", "run": {"command": ["a\0"]}}),
        "definition.phases[0].steps[0].run.command contains U+0000 in item 1.",
    ),
    "a large prompt": (
        one_phase({"id": "fix", "run": {"command": ["cat"], "prompt": "x" * 500_000}}),
        "Step fix: prompt has 500,000 bytes; at most 65,536. Pass a file.",
    ),
}


@pytest.mark.parametrize(("definition", "sentence"), DEFINITIONS.values(), ids=DEFINITIONS)
async def test_a_bad_definition_fails_its_run_at_once_with_a_sentence(
    remembering: Harness, database: Database, definition: dict[str, Any], sentence: str
) -> None:
    assert await _refused(remembering, "HarnessRun", [{"definition": definition}]) == sentence
    assert await _journal(database) == 0


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"scope": ""}, "scope is empty; give 1 to 256 characters."),
        ({"scope": "s" * 257}, "scope has 257 characters; at most 256."),
        ({"visit": 100_001}, "visit is too large; at most 100,000 is allowed."),
        ({"definition_hash": "h" * 81}, "definition_hash has 81 characters; at most 80."),
        ({"step": {"id": "a/b", "run": TRUE}}, 'step.id contains "/" at character 2.'),
    ],
)
async def test_a_bad_step_alone_fails_at_once_with_a_sentence(
    remembering: Harness, database: Database, more: dict[str, Any], sentence: str
) -> None:
    assert await _refused(remembering, "HarnessStep", [{"scope": "acme/api", "step": BUILD, **more}]) == sentence
    assert await _journal(database) == 0


async def test_a_prompt_of_5_mb_never_becomes_a_run(harness: Harness) -> None:
    definition = one_phase({"id": "fix", "run": {"command": ["cat"], "prompt": "x" * 5_000_000}})

    with pytest.raises(RPCError) as refused:
        await harness.start(definition, "large")

    assert refused.value.status in (RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.RESOURCE_EXHAUSTED)
    with pytest.raises(RPCError, match="not found"):
        await harness.client.get_workflow_handle("large").describe()


FILE = "name: checks\nscope: acme/api\nphases:\n  - id: T0\n    steps:\n      - id: fix\n"
FILES = {
    "5 MB": (
        f"{FILE}        run: {{command: [cat], prompt: {'x' * 5_000_000}}}\n",
        "has 5,000,115 bytes; at most 1,048,576. Pass large texts as files.",
    ),
    "large": (
        f"{FILE}        run: {{command: [cat], prompt: {'x' * 70_000}}}\n",
        "line 7: Step fix: prompt has 70,000 bytes; at most 65,536. Pass a file.",
    ),
    "malformed": (f"{FILE}     run: 1\n", "line 7, column 6: not valid YAML: expected a key."),
    "unknown field": (
        f"{FILE}        run: {{comand: [x]}}\n",
        'line 7: phases[0].steps[0].run has no field "comand"; did you mean "command"?',
    ),
}


@pytest.mark.parametrize(("text", "sentence"), FILES.values(), ids=FILES)
async def test_a_bad_file_is_refused_by_its_line_before_anything_is_asked(
    text: str, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.yaml").write_text(text)

    ended = await run_program(str(POIMEN), "run", "bad.yaml", variables={}, cwd=tmp_path)

    assert (ended.code, ended.out, ended.err) == (2, "", f"bad.yaml {sentence}\n")


async def _one_attempt(harness: Harness, database: Database, body: dict[str, Any]) -> str:
    """Run a step that cannot be cured; return why it ended. What happened is on record, once and whole."""
    result = await harness.run(one_phase({"id": "serve", **body}))

    assert (result["end"], result["attempts"], result["undelivered_records"]) == ("failed", 1, 0)
    kinds = await database.run_sql("SELECT payload ->> 'kind' FROM journal WHERE kind = 'decision_documented'")
    assert sorted(kinds.split()) == ["run_final", "step_completion"]
    return str(result["reason"])


async def test_a_model_that_is_not_configured_takes_one_attempt(remembering: Harness, database: Database) -> None:
    reason = await _one_attempt(remembering, database, {"run": {"model": "large", "prompt": "Plan."}})

    assert reason == 'Step serve: the model "large" is not configured on the executor; configured: none; not retried'


async def test_a_command_that_is_not_there_takes_one_attempt(remembering: Harness, database: Database) -> None:
    reason = await _one_attempt(remembering, database, {"run": {"command": ["no-such-program"]}})

    assert reason == 'Step serve: the command "no-such-program" is not on the executor; not retried'


async def test_a_cwd_that_leads_outside_takes_one_attempt(remembering: Harness, database: Database) -> None:
    (remembering.workspace / "out").symlink_to("/")

    reason = await _one_attempt(remembering, database, {"run": {"command": ["true"], "cwd": "out"}})

    assert reason == 'Step serve: cwd "out" is outside the workspace; not retried'


async def test_a_workspace_outside_the_roots_takes_one_attempt(remembering: Harness) -> None:
    result = await remembering.ended(
        await remembering.client.start_workflow(
            "HarnessRun",
            {"definition": one_phase(step("serve", "true")), "workspace": "/"},
            id=f"run-{remembering.queue}",
            task_queue=remembering.queue,
        )
    )

    assert (result["end"], result["attempts"]) == ("failed", 1)
    assert result["reason"] == "Step serve: the workspace is outside the executor's allowed roots; not retried"


async def test_odd_characters_of_a_prompt_are_replaced_and_refuse_nothing(remembering: Harness) -> None:
    body = {"id": "fix", "run": {"command": ["/bin/sh", "-c", "cat > seen"], "prompt": "a\\u0000b\\ud800c"}}
    message = {"definition": one_phase(body), "workspace": str(remembering.workspace)}
    typed = json.dumps(message).replace("\\\\u", "\\u")

    result = await remembering.client.execute_workflow(
        "HarnessRun", json_text(typed), id=f"run-{remembering.queue}", task_queue=remembering.queue, result_type=dict
    )

    assert result["end"] == "succeeded"
    assert (remembering.workspace / "seen").read_text() == "a\u2400b\ufffdc"


PRINTS: dict[str, Callable[[str], bool]] = {
    "printf 'name\\0value\\n'; exit 1": lambda kept: "name\u2400value" in kept,
    "head -c 200000 /dev/urandom; exit 1": lambda kept: 0 < len(kept.encode()) < 20_000,
    "printf '\\355\\240\\200 text\\n'; exit 1": lambda kept: "\ufffd text" in kept,
}


@pytest.mark.parametrize(("script", "holds"), PRINTS.items(), ids=["NUL", "binary", "surrogate"])
async def test_odd_output_is_learned_from_like_any_other(
    remembering: Harness, database: Database, script: str, holds: Callable[[str], bool]
) -> None:
    result = await remembering.run(one_phase(step("serve", script, retry={"attempts": 1})))

    assert (result["end"], result["undelivered_records"]) == ("failed", 0)
    assert holds(await database.run_sql("SELECT payload ->> 'error' FROM journal WHERE payload ? 'error'"))


async def test_a_huge_output_passes_through_a_run_small(harness: Harness) -> None:
    handle = await harness.start(one_phase(step("serve", "yes | head -c 60000000; exit 1", retry={"attempts": 1})))

    assert (await harness.ended(handle))["end"] == "failed"
    history = await harness.client.get_workflow_handle(f"{handle.id}/serve").fetch_history()
    assert len(history.to_json()) < 128 * 1024


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_a_child_that_outlives_its_parent_ends_with_its_attempt(harness: Harness) -> None:
    script = "setsid sh -c 'echo $$ > pid; exec sleep 300' & while [ ! -s pid ]; do sleep 0.02; done"

    result = await harness.run(one_phase(step("serve", script)))

    assert result["end"] == "succeeded"
    assert not is_running(int((harness.workspace / "pid").read_text()))


async def test_a_field_of_a_run_that_is_not_known_is_named_in_its_result(harness: Harness) -> None:
    result = await harness.run(one_phase(step("build", "true")), memroy="off")
    assert result["memory"] == "on"
    assert any("memroy" in warning for warning in result["warnings"])


async def test_a_run_that_memory_refuses_says_so_in_its_result(remembering: Harness) -> None:
    result = await remembering.run(one_phase(step("build", "true"), step("test", "exit 1")), tenant="nobodys")
    assert result["warnings"]
    assert all(warning.startswith("memory refused") for warning in result["warnings"])
