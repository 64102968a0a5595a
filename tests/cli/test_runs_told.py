"""The commands that start runs and tell of them, against a worker of a real stack."""

import asyncio
import contextlib
import re
import signal
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.service import RetryConfig

from poimen.contracts.run_io import HarnessRunResult, StepSummary
from tests.tcp_proxy import TcpProxy
from tests.worker.running import POIMEN, Place, clean_environment, until, until_there
from worker.cli.how_ended import how_ended, is_reset, with_first_causes
from worker.cli.run import _result
from worker.exits import ExitError
from worker.stack.temporal import RunningTemporal
from worker.temporal_client import quiet_runtime

ADDRESS_IN_USE = "OSError: [Errno 98] Address already in use"


def definition(folder: Path, script: str, *, scope: str = "acme/cli", attempts: int = 2) -> str:
    """Write a definition of one step and return its name."""
    file = folder / f"{uuid.uuid4().hex[:8]}.yaml"
    file.write_text(
        f"name: told\nscope: {scope}\nretry: {{attempts: {attempts}, first_delay: 0s}}\n"
        f"phases:\n  - id: T0\n    steps:\n      - id: serve\n        run:\n          command: [sh, -c, {script!r}]\n"
    )
    return file.name


def fails_once(folder: Path, scope: str) -> str:
    """A definition whose step fails once for a known reason and then passes."""
    mark = uuid.uuid4().hex
    return definition(
        folder, f'test -e {mark} || {{ touch {mark}; echo "{ADDRESS_IN_USE}" >&2; exit 1; }}', scope=scope
    )


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def told(served: Place) -> dict[str, Any]:
    """A run whose step failed once, as `poimen run --json` tells it."""
    ended = await served.poimen("run", fails_once(served.folder, "acme/told"), "--json")
    assert ended.code == 0, ended.err
    return dict(ended.json)


async def test_a_run_that_succeeds_is_shown_step_by_step(served: Place) -> None:
    ended = await served.poimen("run", fails_once(served.folder, "acme/shown"), "--id", "shown", "--memory", "observe")
    assert (ended.code, ended.err) == (0, "")
    first, heads, step, last = ended.out.splitlines()
    assert first == "shown  http://ui.example/namespaces/default/workflows/shown"
    assert heads.split() == ["phase", "step", "attempts", "seconds", "end", "reason"]
    assert step.split()[:3] == ["T0", "serve", "2"]
    assert last == "succeeded: 1 of 1 steps passed"


async def test_a_run_carries_its_summary_and_its_scope(told: dict[str, Any], temporal_client: Client) -> None:
    described = await temporal_client.get_workflow_handle(told["workflow_id"]).describe()
    assert told["workflow_id"].startswith("told-")
    assert await described.static_summary() == "told · memory on"
    assert described.search_attributes["MemoryScope"] == ["acme/told"]


async def test_a_run_that_fails_ends_with_1_and_its_reason(served: Place) -> None:
    failing = definition(served.folder, "echo broken >&2; exit 3", attempts=1)
    ended = await served.poimen("run", failing, "--workspace", "/")
    assert ended.code == 1
    assert ended.out.splitlines()[-1].startswith("failed: Step serve:")
    assert "the workspace is outside the executor's allowed roots" in ended.out


async def test_a_run_that_is_cancelled_ends_its_command_with_1(served: Place, temporal_client: Client) -> None:
    waiting = definition(served.folder, "sleep 600")
    started = await served.poimen("run", waiting, "--no-wait", "--json", "--id", "taken")
    assert (started.code, started.json["workflow_id"]) == (0, "taken")
    again = await served.poimen("run", waiting, "--id", "taken")
    assert (again.code, again.err) == (1, "taken is running already; give another --id, or wait for it.\n")
    async with waited_for(served, waiting, "cancelled") as command:
        await temporal_client.get_workflow_handle("cancelled").cancel()
        _, said = await command.communicate()
    assert (command.returncode, said) == (1, b"cancelled was cancelled.\n")
    ended = await how_ended(temporal_client, await temporal_client.get_workflow_handle("cancelled").describe())
    assert (ended.end, ended.reason) == ("cancelled", "the run was cancelled")
    await temporal_client.get_workflow_handle("taken").terminate()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_command_that_is_interrupted_leaves_its_run_alone_and_says_so(
    served: Place, temporal_client: Client, number: signal.Signals, code: int
) -> None:
    name = f"left-{code}"
    async with waited_for(served, definition(served.folder, "sleep 600"), name) as command:
        command.send_signal(number)
        _, said = await command.communicate()
    assert command.returncode == code
    assert said.decode() == f"The run goes on. To end it: temporal workflow cancel --workflow-id {name}\n"
    handle = temporal_client.get_workflow_handle(name)
    assert (await handle.describe()).status == WorkflowExecutionStatus.RUNNING
    await handle.terminate()


@contextlib.asynccontextmanager
async def waited_for(served: Place, file: str, name: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start `poimen run` and hand it over once its run has begun and it waits."""
    command = await asyncio.create_subprocess_exec(
        str(POIMEN),
        "run",
        file,
        "--id",
        name,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=clean_environment(served.variables),
        cwd=served.folder,
    )
    assert command.stdout is not None
    assert (await command.stdout.readline()).startswith(name.encode())
    yield command


async def test_a_temporal_that_goes_away_is_said_in_one_sentence(
    temporal_server: RunningTemporal, capfd: pytest.CaptureFixture[str]
) -> None:
    host, port = temporal_server.address.split(":")
    proxy = TcpProxy(host, int(port))
    await proxy.pass_on()
    # The SDK speaks of a call from its fifth try on.
    tries = RetryConfig(initial_interval_millis=1, max_interval_millis=1, max_retries=7)
    client = await Client.connect(f"127.0.0.1:{proxy.port}", retry_config=tries, runtime=quiet_runtime())
    handle = await client.start_workflow("Nothing", id=f"away-{uuid.uuid4().hex[:8]}", task_queue="away")
    waiting = asyncio.create_task(_result(handle))
    await proxy.refuse()
    with pytest.raises(
        ExitError, match=f"Temporal went away while this waited for {handle.id}; the run goes on"
    ) as end:
        await waiting
    assert end.value.code == 3
    assert capfd.readouterr() == ("", "")


async def test_why_tells_what_memory_said_by_workflow_id_and_by_run_id(served: Place, told: dict[str, Any]) -> None:
    whole = await served.poimen("why", told["workflow_id"])
    assert whole.code == 0
    assert whole.out.startswith("attempt 1 failed: address in use (s2:")
    step = await served.poimen("why", f"{told['run']}/serve", "--json")
    assert step.json["steps"][0]["attempts"][0]["title"] == "address in use"


async def test_why_of_a_step_that_is_not_there_ends_with_1(served: Place, told: dict[str, Any]) -> None:
    ended = await served.poimen("why", f"{told['workflow_id']}/nothing")
    assert (ended.code, ended.err) == (1, f"{told['workflow_id']} has no step of that name on record.\n")


async def test_the_latest_runs_are_listed_with_their_ends(served: Place, told: dict[str, Any]) -> None:
    runs = (await served.poimen("runs", "--json", "--limit", "100")).json
    listed = next(one for one in runs if one["workflow_id"] == told["workflow_id"])
    assert (listed["end"], listed["attempts"], listed["reason"]) == ("succeeded", 2, "1 of 1 steps passed")


async def test_the_attempts_of_a_run_without_a_result_are_counted(served: Place, temporal_client: Client) -> None:
    begun = f"begun-{uuid.uuid4().hex[:8]}"
    file = definition(served.folder, f"test -e {begun} && touch {begun}-2 && sleep 600; touch {begun}; exit 1")
    assert (await served.poimen("run", file, "--no-wait", "--id", begun)).code == 0
    await until_there(served.folder / f"{begun}-2")
    handle = temporal_client.get_workflow_handle(begun)
    await handle.terminate(reason="no more need")
    ended = await how_ended(temporal_client, await handle.describe())
    assert (ended.end, ended.attempts, ended.reason) == ("terminated", 2, "the run was terminated: no more need")


async def terminated(client: Client, kind: str, name: str, reason: str) -> None:
    """A workflow of that kind and id that nobody took up, and that a person ended."""
    handle = await client.start_workflow(kind, id=name, task_queue="nobody")
    await handle.terminate(reason=reason)


async def test_runs_that_share_an_id_and_a_step_alone_are_told_apart(served: Place, temporal_client: Client) -> None:
    await terminated(temporal_client, "HarnessRun", "shared", "first")
    await terminated(temporal_client, "HarnessRun", "shared", "second")
    await terminated(temporal_client, "HarnessStep", "by-itself", "no need")
    rows: list[str] = []

    async def listed() -> bool:
        rows[:] = (await served.poimen("runs", "--limit", "20")).out.splitlines()
        return sum(row.startswith(("shared ", "by-itself ")) for row in rows) == 3

    await until(listed)
    alone, *shared = (row for row in rows if row.startswith(("shared ", "by-itself ")))
    assert re.split(r"\s{2,}", alone)[:2] == ["by-itself (a step alone)", "terminated"]
    assert alone.endswith("the step was terminated: no need")
    assert [row.rpartition(": ")[2] for row in shared] == ["second", "first"]
    run_ids = {re.findall(r"[0-9a-f-]{36}", row)[0] for row in shared}
    assert len(run_ids) == 2


async def test_a_reset_run_is_told_from_the_one_that_it_goes_on_from(served: Place, temporal_client: Client) -> None:
    first = await temporal_client.start_workflow("HarnessRun", id="reset", task_queue=served.queue)
    with pytest.raises(WorkflowFailureError):
        await first.result()
    await temporal_client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=temporal_client.namespace,
            workflow_execution=WorkflowExecution(workflow_id="reset", run_id=first.first_execution_run_id),
            reason="again",
            request_id="again",
            workflow_task_finish_event_id=4,
        )
    )
    again = temporal_client.get_workflow_handle("reset")
    assert await is_reset(temporal_client, await again.describe())
    former = temporal_client.get_workflow_handle("reset", run_id=first.first_execution_run_id)
    assert not await is_reset(temporal_client, await former.describe())


async def test_what_a_person_said_who_terminated_a_step_is_part_of_the_runs_reason(temporal_client: Client) -> None:
    await terminated(temporal_client, "HarnessStep", "said/slow", "disk is full")
    step = StepSummary(
        step="slow",
        phase="T0",
        visit=1,
        end="interrupted",
        attempts=1,
        seconds=0,
        reason="the step's workflow was terminated",
        workflow_id="said/slow",
    )
    result = HarnessRunResult(
        run="r",
        end="failed",
        reason="Step slow: the step's workflow was terminated",
        definition_hash="wd1:0",
        steps=(step,),
        attempts=1,
        tokens=0,
        seconds=1,
        memory="on",
    )
    told = await with_first_causes(temporal_client, result)
    assert told.reason == "Step slow: the step's workflow was terminated (slow: disk is full)"


async def test_what_was_learned_is_found_and_can_be_retired(served: Place) -> None:
    await served.poimen("run", fails_once(served.folder, "acme/retired"))
    found = await served.poimen("search", ADDRESS_IN_USE, "--scope", "acme/retired")
    line = next(line for line in found.out.splitlines() if "Address in use (observed, " in line)
    score, kind, lesson = line.split()[:3]
    assert (score, kind) == ("1.00", "lesson")
    retired = await served.poimen("retire", lesson, "--reason", "not true here")
    assert (retired.code, retired.out) == (0, f"{lesson} is retired (revision 2): address in use\n")
    after = await served.poimen("search", ADDRESS_IN_USE, "--json")
    assert lesson not in [item["id"] for item in after.json["items"]]
    assert await served.count("kind = 'knowledge_retired' AND origin = 'operator'") == 1


async def test_the_doctor_finds_a_whole_stack_well(served: Place) -> None:
    ended = await served.poimen("doctor")
    assert ended.code == 0, ended.out
    assert {line.split()[0] for line in ended.out.splitlines()} == {"ok"}
    assert "row-level security on" in ended.out
