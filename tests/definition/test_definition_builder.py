from datetime import timedelta
from decimal import Decimal

import pytest

from poimen.builder import Harness, activity, command, go_to, judge, model, repair
from poimen.contracts.canonical import definition_hash
from poimen.contracts.definition import Budget, Retry, WorkflowDef
from poimen.contracts.message import decode
from poimen.contracts.problems import InvalidInput


def release() -> Harness:
    return (
        Harness(
            "release-checks",
            scope="acme/api",
            budget={"attempts": 30, "time": "30m"},
            environment={"python": command("python", "--version"), "lock": {"file": "uv.lock"}, "image": "env:I"},
        )
        .phase("T0", title="Environment")
        .step(
            "install",
            run=command("pip", "install", timeout=timedelta(minutes=5)),
            verify=command("python", "-c", "import api"),
            repairs=[repair("clear-cache", "rm", "-rf", ".cache", before=True)],
        )
        .step(
            "plan",
            tool="planner",
            needs=["install"],
            run=model("small", prompt="Plan.\n{{context}}"),
            judge=judge(command("./score-plan"), passes=0.8),
            on_failure=go_to("install", at_most=1),
        )
        .gate(activity("smoke", queue="mine"), on_failure="skip")
    )


AS_DATA = {
    "name": "release-checks",
    "scope": "acme/api",
    "budget": {"attempts": 30, "time": "30m"},
    "environment": {"python": {"command": ["python", "--version"]}, "lock": {"file": "uv.lock"}, "image": "env:I"},
    "phases": [
        {
            "id": "T0",
            "title": "Environment",
            "steps": [
                {
                    "id": "install",
                    "run": {"command": ["pip", "install"], "timeout": "5m"},
                    "verify": {"command": ["python", "-c", "import api"]},
                    "repairs": [{"id": "clear-cache", "command": ["rm", "-rf", ".cache"], "before": True}],
                },
                {
                    "id": "plan",
                    "tool": "planner",
                    "needs": ["install"],
                    "run": {"model": "small", "prompt": "Plan.\n{{context}}"},
                    "judge": {"command": ["./score-plan"], "pass": 0.8},
                    "on_failure": {"go_to": "install", "at_most": 1},
                },
            ],
            "gate": {"activity": {"name": "smoke", "queue": "mine"}, "on_failure": "skip"},
        }
    ],
}


def test_python_and_json_give_the_same_definition_and_hash() -> None:
    built = release().build()
    read = decode(WorkflowDef, AS_DATA).message
    assert built == read
    assert definition_hash(built) == definition_hash(read)


def test_parts_may_be_given_as_models() -> None:
    harness = Harness("a", scope="s", budget=Budget(attempts=3, time="1h"), retry=Retry(factor=Decimal("1.5")))
    built = harness.phase("T0").step("x", run=command("x")).build()
    assert built.budget.time == 3_600_000
    assert built.retry.factor == Decimal("1.5")


def test_faults_are_told_in_the_same_sentences() -> None:
    harness = Harness("a", scope="s").phase("T0").step("build", run=command("x"), needs=["test"])
    harness.step("test", run=command("x"), needs=["build"])
    with pytest.raises(InvalidInput) as caught:
        harness.build()
    assert str(caught.value) == "Phase T0: needs form a cycle: build → test → build."


def test_a_prompt_beyond_any_message_is_told_by_its_step() -> None:
    harness = Harness("a", scope="s").phase("T0").step("fix", run=command("agent", prompt="x" * 5_000_000))
    with pytest.raises(InvalidInput) as caught:
        harness.build()
    assert str(caught.value) == "Step fix: prompt has 5,000,000 bytes; at most 65,536. Pass a file."


def test_a_step_needs_a_phase() -> None:
    with pytest.raises(InvalidInput, match=r"A step needs a phase; call phase\(\) first\."):
        Harness("a", scope="s").step("x", run=command("x"))


def test_a_built_definition_does_not_change_with_its_builder() -> None:
    harness = release()
    first = harness.build()
    harness.phase("T1").step("later", run=command("x"))
    assert len(first.phases) == 1
    assert len(harness.build().phases) == 2
