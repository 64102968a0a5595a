import asyncio
import dataclasses
import json

import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from executors.activities import ExecutorActivities
from poimen.contracts.execution import CommandResult, ExecutorClaim, ModelResult
from poimen.contracts.message import decode
from poimen.contracts.problems import InvalidInput


@pytest.fixture
def activities(settings):
    return ExecutorActivities(settings)


@pytest.fixture
def environment():
    return ActivityEnvironment()


def raw(message):
    return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(message).encode()))


def command(*argv, **fields):
    return raw({"argv": argv, "run": "run-1", "step": "serve", **fields})


def test_the_activities_have_their_names(activities):
    names = [method.__temporal_activity_definition.name for method in activities.all()]
    assert names == ["ClaimExecutor", "RunCommand", "RunModel"]


async def test_a_command_runs_and_answers_plain_json(activities, environment):
    answer = await environment.run(activities.run_command, command("echo", "hello"))
    assert answer == json.loads(json.dumps(answer))
    result = CommandResult.model_validate_json(json.dumps(answer))
    assert (result.end, result.exit_code, result.head) == ("exited", 0, "hello\n")


async def test_a_running_command_heartbeats(activities, environment):
    beats = []
    environment.on_heartbeat = lambda *details: beats.append(details)
    await environment.run(activities.run_command, command("sleep", "1.2"))
    assert len(beats) >= 2


async def test_a_claim_heartbeats_while_it_gathers(activities, environment, monkeypatch):
    monkeypatch.setattr("executors.process._BEAT_SECONDS", 0.05)
    beats = []
    environment.on_heartbeat = lambda *details: beats.append(details)
    asked = [{"name": "slow", "command": ["sleep", "0.3"]}]
    await environment.run(activities.claim_executor, raw({"run": "run-1", "environment": asked}))
    assert len(beats) >= 2


async def test_a_refusal_is_an_answer(activities, environment):
    answer = await environment.run(activities.run_command, command("true", cwd=".."))
    assert (answer["end"], answer["detail"]) == ("not_allowed", 'cwd ".." is outside the workspace')


async def test_an_unknown_field_is_a_warning(activities, environment):
    answer = await environment.run(activities.run_command, command("true", colour="red"))
    assert answer["end"] == "exited"
    assert any("colour" in warning for warning in answer["warnings"])


@pytest.mark.parametrize("name", ["claim_executor", "run_command", "run_model"])
@pytest.mark.parametrize("message", [None, {}, [], {"run": ""}, {"run": 3}])
async def test_a_malformed_message_is_refused_for_good(activities, environment, name, message):
    given = [] if message is None else [raw(message)]
    with pytest.raises(ApplicationError) as caught:
        await environment.run(getattr(activities, name), *given)
    assert (caught.value.type, caught.value.non_retryable) == ("InvalidInput", True)


async def test_a_command_without_a_program_is_refused_for_good(activities, environment):
    with pytest.raises(ApplicationError, match="argv") as caught:
        await environment.run(activities.run_command, command())
    assert (caught.value.type, caught.value.non_retryable) == ("InvalidInput", True)


async def test_cancelling_ends_the_command_and_is_passed_on(activities, environment, workspace, read_pid, is_running):
    script = "echo $$ > self; exec sleep 300"
    task = asyncio.create_task(environment.run(activities.run_command, command("sh", "-c", script)))
    pid = await asyncio.to_thread(read_pid, workspace / "self")
    environment.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_running(pid)


async def test_a_worker_that_shuts_down_ends_the_command_and_says_so(activities, environment, workspace, read_pid):
    script = "echo $$ > self; exec sleep 300"
    task = asyncio.create_task(environment.run(activities.run_command, command("sh", "-c", script)))
    await asyncio.to_thread(read_pid, workspace / "self")
    environment.cancel(cancellation_details=ActivityCancellationDetails(worker_shutdown=True))
    answer = await task
    assert (answer["end"], answer["detail"]) == ("cancelled", "the executor was shut down")


async def test_a_claim_names_queue_workspace_and_environment(activities, environment, workspace):
    (workspace / "api").mkdir()
    request = {
        "run": "run-1",
        "workspace": "api",
        "environment": [{"name": "tool", "command": ["echo", "v1"]}, {"name": "lock", "file": "gone"}],
    }
    answer = await environment.run(activities.claim_executor, raw(request))
    claim = ExecutorClaim.model_validate_json(json.dumps(answer))
    assert (claim.queue, claim.host, claim.workspace) == ("here-commands", "here", str(workspace.resolve() / "api"))
    assert claim.environment == {"tool": "v1", "lock": "unknown: no such file"}
    assert claim.warnings == ("environment lock is unknown: no such file",)


async def test_commands_in_a_claimed_workspace_run_there(activities, environment, workspace):
    (workspace / "api").mkdir()
    claim = await environment.run(activities.claim_executor, raw({"run": "run-1", "workspace": "api"}))
    answer = await environment.run(activities.run_command, command("pwd", workspace=claim["workspace"]))
    assert answer["head"].strip() == str(workspace.resolve() / "api")


async def test_a_claim_outside_the_roots_is_warned_of_and_its_commands_are_refused(activities, environment):
    claim = await environment.run(activities.claim_executor, raw({"run": "run-1", "workspace": "/"}))
    assert claim["warnings"] == ["the workspace is outside the executor's allowed roots"]
    answer = await environment.run(activities.run_command, command("true", workspace=claim["workspace"]))
    assert answer["end"] == "not_allowed"


async def test_a_model_that_is_not_configured_is_an_answer(activities, environment):
    request = {"model": "large", "prompt": "Plan.", "run": "run-1", "step": "plan"}
    answer = await environment.run(activities.run_model, raw(request))
    assert ModelResult.model_validate_json(json.dumps(answer)).end == "not_configured"


async def test_an_executor_without_room_for_an_attempt_says_so_without_a_path(settings, environment, tmp_path):
    activities = ExecutorActivities(dataclasses.replace(settings, state_dir=tmp_path / "file"))
    (tmp_path / "file").write_text("a file where the folder should be")
    with pytest.raises(ApplicationError, match="the executor could not start a command") as caught:
        await environment.run(activities.run_command, command("true"))
    assert caught.value.type == "ExecutorUnavailable"
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize("queue", ["/_sys/own", "q" * 201, ""])
def test_a_claim_names_a_queue_that_the_server_takes(queue):
    answer = {"queue": queue, "host": "here", "workspace": "/w"}
    with pytest.raises(InvalidInput, match=r"^queue "):
        decode(ExecutorClaim, answer)
