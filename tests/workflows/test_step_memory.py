"""What a step asks memory, and what it does with the answer."""

import json
from typing import Any

import pytest

from tests.workflows.conftest import Harness, StandInMemory, analysis, context_package, one_phase, step


def _repairing(repair: str) -> Any:
    return lambda message: analysis(message, "repair", repair=repair)


def _broken_until(harness: Harness, repair: str) -> dict[str, Any]:
    cured = harness.workspace / repair
    repairs = [
        {"id": "useless", "command": ["true"]},
        {"id": repair, "command": ["touch", str(cured)], "before": True},
    ]
    return step("serve", f"test -e {cured}", repairs=repairs)


async def test_without_memory_repairs_run_in_their_declared_order_one_a_failure(harness: Harness) -> None:
    result = await harness.run(one_phase(_broken_until(harness, "free-port")), memory="off")

    assert result["steps"][0]["attempts"] == 3
    assert result["steps"][0]["reason"] == "passed, attempt 3, after free-port"
    assert harness.memory.calls == []


async def test_an_advised_repair_runs_before_the_declared_order(harness: Harness) -> None:
    harness.memory.answers["AnalyzeError"] = _repairing("free-port")

    result = await harness.run(one_phase(_broken_until(harness, "free-port")))

    assert result["steps"][0]["attempts"] == 2


async def test_observing_records_everything_and_follows_nothing(harness: Harness) -> None:
    harness.memory.answers["AnalyzeError"] = _repairing("free-port")

    result = await harness.run(one_phase(_broken_until(harness, "free-port")), memory="observe")

    assert result["steps"][0]["attempts"] == 3
    assert [name for name, _ in harness.memory.calls[:4]] == [
        "AnalyzeError",
        "AnalyzeError",
        "LearnFromExecution",
        "DocumentDecision",
    ]


async def test_a_prevention_runs_before_the_first_attempt(harness: Harness) -> None:
    known = {"repair": "free-port", "because": "it worked 2 of 2"}
    harness.memory.answers["GetContext"] = lambda message: context_package(message, prevention=known)

    result = await harness.run(one_phase(_broken_until(harness, "free-port")))

    assert result["steps"][0]["attempts"] == 1
    assert result["steps"][0]["prevented_by"] == "free-port"
    assert harness.memory.of("LearnFromExecution")[0]["applied"]["kind"] == "prevention"


async def test_a_prevention_that_its_author_did_not_allow_is_not_run(harness: Harness) -> None:
    known = {"repair": "useless", "because": "it worked 2 of 2"}
    harness.memory.answers["GetContext"] = lambda message: context_package(message, prevention=known)

    result = await harness.run(one_phase(_broken_until(harness, "free-port")))

    assert result["steps"][0]["prevented_by"] is None


async def test_a_stop_ends_the_step_early_with_memorys_reason(harness: Harness) -> None:
    harness.memory.answers["AnalyzeError"] = lambda message: analysis(message, "stop", because="nothing helped")

    result = await harness.run(one_phase(step("sign", "exit 1")))

    assert (result["steps"][0]["end"], result["steps"][0]["attempts"]) == ("stopped", 1)
    assert result["reason"] == "Step sign: stopped: nothing helped"


async def test_advice_below_the_confidence_setting_is_not_followed(harness: Harness) -> None:
    harness.memory.answers["AnalyzeError"] = lambda message: analysis(message, "stop")

    result = await harness.run(one_phase(step("sign", "exit 1")), least_confidence=0.9)

    assert result["steps"][0]["attempts"] == 3


async def test_the_applied_action_is_reported_with_the_next_outcome(harness: Harness) -> None:
    harness.memory.answers["AnalyzeError"] = _repairing("free-port")

    await harness.run(one_phase(_broken_until(harness, "free-port")))

    applied = harness.memory.of("LearnFromExecution")[0]["applied"]
    assert (applied["kind"], applied["repair"], applied["exit_code"]) == ("repair", "free-port", 0)
    assert applied["since_first_failure_seconds"] > 0


@pytest.mark.parametrize("ended", ["passed", "failed", "refused"])
async def test_every_step_execution_is_documented_whatever_its_end(harness: Harness, ended: str) -> None:
    script = {"passed": "true", "failed": "exit 1", "refused": "true"}[ended]
    body = step("build", script)
    if ended == "refused":
        body["run"] = {"command": ["/no/such/program"]}

    await harness.run(one_phase(body))

    kinds = [message["kind"] for message in harness.memory.of("DocumentDecision")]
    assert kinds.count("step_completion") == 1


async def test_a_command_that_is_not_on_the_executor_is_not_retried(harness: Harness) -> None:
    body = step("serve", "")
    body["run"] = {"command": ["/no/such/program"]}

    result = await harness.run(one_phase(body))

    assert result["attempts"] == 1
    assert 'the command "/no/such/program" is not on the executor' in result["reason"]


async def test_a_working_folder_outside_the_workspace_is_refused_before_anything_runs(harness: Harness) -> None:
    (harness.workspace / "link").symlink_to("/")
    body = step("serve", "touch here")
    body["run"]["cwd"] = "link/tmp"

    result = await harness.run(one_phase(body))

    assert (result["attempts"], result["steps"][0]["end"]) == (1, "failed")


async def test_a_report_that_cannot_be_read_leaves_a_warning_on_its_attempt(harness: Harness) -> None:
    await harness.run(one_phase(step("build", "echo 'tokens: 3' > $POIMEN_RESULT")))

    [completion] = [m for m in harness.memory.of("DocumentDecision") if m["kind"] == "step_completion"]
    [warning] = completion["attempts"][0]["warnings"]
    assert warning.startswith("the report was ignored: The report: line 1, ")


async def test_a_verification_decides_over_the_exit_status(harness: Harness) -> None:
    lies = step("lies", "true", verify={"command": ["false"]}, on_failure="skip")
    modest = step("modest", "exit 7", verify={"command": ["true"]})

    result = await harness.run(one_phase(lies, modest))

    assert {s["step"]: s["end"] for s in result["steps"]} == {"lies": "failed", "modest": "succeeded"}


async def test_the_commands_own_failure_is_what_is_analysed_when_the_verification_fails_too(harness: Harness) -> None:
    body = step("serve", "echo port taken; exit 1", verify={"command": ["/bin/sh", "-c", "echo refused; exit 1"]})

    await harness.run(one_phase(body))

    message = harness.memory.of("AnalyzeError")[0]
    assert (message["source"], message["error"].strip()) == ("step", "port taken")


@pytest.mark.parametrize(("score", "end"), [("0.9", "succeeded"), ('{"score": 0.2}', "failed"), ("good", "failed")])
async def test_a_judge_passes_by_its_score(harness: Harness, score: str, end: str) -> None:
    judge = {"command": ["/bin/sh", "-c", f"cat > judged; echo '{score}'"], "pass": 0.8}

    result = await harness.run(one_phase(step("plan", "echo the plan", judge=judge, retry={"attempts": 1})))

    assert result["steps"][0]["end"] == end
    assert (harness.workspace / "judged").read_text().strip() == "the plan"


async def test_a_time_out_is_told_apart_from_the_steps_own_failure(harness: Harness) -> None:
    body = step("slow", "sleep 30", retry={"attempts": 1})
    body["run"]["timeout"] = "300ms"

    await harness.run(one_phase(body))

    assert harness.memory.of("AnalyzeError")[0]["source"] == "timeout"


async def test_the_context_reaches_a_command_as_prompt_file_and_json(harness: Harness) -> None:
    item = {
        "id": "les-7f3c21d0", "kind": "lesson", "level": "L1", "tier": "signatures", "title": "Port taken",
        "text": "serve failed 2 times", "origin": "harness_outcome", "trust": "observed",
        "recorded_at": "2026-11-29T14:50:09Z", "because": "same step",
    }  # fmt: skip
    harness.memory.answers["GetContext"] = lambda message: context_package(message, items=[item], empty_reason=None)
    body = step("serve", "cat > prompt; cp $POIMEN_CONTEXT text; cp $POIMEN_CONTEXT_JSON json")
    body["run"]["prompt"] = "Serve.\n{{lessons}}"

    await harness.run(one_phase(body))

    lesson = "- [les-7f3c21d0 | own outcomes | observed | 2 h] serve failed 2 times"
    text = (harness.workspace / "text").read_text()
    opened, *_, closed = text.split("\n")
    assert (harness.workspace / "prompt").read_text() == f"Serve.\n{opened}\n{lesson}\n{closed}"
    assert lesson in text
    assert json.loads((harness.workspace / "json").read_text())["items"][0]["id"] == "les-7f3c21d0"


async def test_a_lesson_that_a_step_reports_is_sent_to_memory(harness: Harness) -> None:
    report = json.dumps({"lesson": "wait for the port", "decision": "served on 8081", "tokens": 12})

    await harness.run(one_phase(step("serve", f"echo '{report}' > $POIMEN_RESULT")))

    assert harness.memory.of("LearnFromExecution")[0]["lesson"] == "wait for the port"
    assert harness.memory.of("DocumentDecision")[0]["decision"] == "served on 8081"
    assert harness.memory.of("DocumentDecision")[0]["tokens"] == 12


async def test_the_environment_is_gathered_once_and_goes_with_every_report(
    harness: Harness, memory: StandInMemory
) -> None:
    count = harness.workspace / "probes"
    probe = {"command": ["/bin/sh", "-c", f"echo x >> {count}; echo 3.11"]}
    steps = [step("a", "true"), step("b", "true")]

    await harness.run(one_phase(*steps, environment={"python": probe}))

    assert count.read_text().split() == ["x"]
    assert {message["environment"]["python"] for message in memory.of("LearnFromExecution")} == {"3.11"}
