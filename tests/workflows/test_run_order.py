"""Phases, needs, gates and ways back."""

from pathlib import Path

from tests.workflows.conftest import Harness, one_phase, step


def _log(name: str, workspace: Path) -> str:
    return f"echo {name} >> {workspace}/order"


def _order(workspace: Path) -> list[str]:
    return (workspace / "order").read_text().split()


async def test_a_step_waits_for_the_steps_it_needs(harness: Harness) -> None:
    deploy = step("deploy", _log("deploy", harness.workspace), needs=["build", "check"])
    build = step("build", _log("build", harness.workspace))
    check = step("check", _log("check", harness.workspace), needs=["build"])

    result = await harness.run(one_phase(deploy, check, build))

    assert result["end"] == "succeeded"
    assert _order(harness.workspace) == ["build", "check", "deploy"]


async def test_steps_without_needs_run_at_the_same_time(harness: Harness) -> None:
    # Each waits for the other's mark: run one after the other, neither would end.
    script = "touch {mine}; while [ ! -e {other} ]; do sleep 0.05; done"
    left = step("left", script.format(mine=harness.workspace / "l", other=harness.workspace / "r"))
    right = step("right", script.format(mine=harness.workspace / "r", other=harness.workspace / "l"))

    result = await harness.run(one_phase(left, right))

    assert result["end"] == "succeeded"


async def test_a_phase_begins_after_the_gate_of_the_one_before(harness: Harness) -> None:
    gate = {"command": ["/bin/sh", "-c", _log("gate", harness.workspace)]}
    phases = [
        {"id": "T0", "steps": [step("build", _log("build", harness.workspace))], "gate": gate},
        {"id": "T1", "steps": [step("deploy", _log("deploy", harness.workspace))]},
    ]

    await harness.run({"name": "checks", "scope": "acme/api", "phases": phases})

    assert _order(harness.workspace) == ["build", "gate", "deploy"]


async def test_a_gate_that_fails_stops_the_run_with_its_reason(harness: Harness) -> None:
    gate = {"command": ["/bin/sh", "-c", "echo parts do not fit; exit 3"]}

    result = await harness.run(one_phase(step("build", "true"), gate=gate))

    assert result["end"] == "failed"
    assert result["reason"] == "Gate of T0 failed: parts do not fit"


async def test_a_gate_is_documented(harness: Harness) -> None:
    await harness.run(one_phase(step("build", "true"), gate={"command": ["true"]}))

    kinds = [message["kind"] for message in harness.memory.of("DocumentDecision")]
    assert kinds == ["step_completion", "gate", "phase_milestone", "run_final"]


async def test_a_failed_step_stops_the_run_and_the_rest_is_not_started(harness: Harness) -> None:
    build = step("build", "echo no compiler; exit 2", on_failure="stop")
    deploy = step("deploy", _log("deploy", harness.workspace), needs=["build"])

    result = await harness.run(one_phase(build, deploy))

    assert result["end"] == "failed"
    assert result["reason"] == "Step build: 3 of 3 attempts failed"
    assert not (harness.workspace / "order").exists()


async def test_a_skipped_step_lets_the_run_go_on_and_is_named_at_the_end(harness: Harness) -> None:
    result = await harness.run(
        one_phase(step("lint", "exit 1", on_failure="skip"), step("build", "true", needs=["lint"]))
    )

    assert result["end"] == "succeeded"
    assert result["reason"] == "1 of 2 steps passed; skipped lint"


async def test_a_failed_step_goes_back_to_an_earlier_one_and_both_are_visited_again(harness: Harness) -> None:
    count = harness.workspace / "count"
    plan = step("plan", f"echo x >> {count}")
    build = step("build", f"test $(wc -l < {count}) -ge 2", needs=["plan"], on_failure={"go_to": "plan", "at_most": 1})

    result = await harness.run(one_phase(plan, build))

    assert result["end"] == "succeeded"
    assert [(s["step"], s["visit"], s["end"]) for s in result["steps"]] == [
        ("plan", 1, "succeeded"),
        ("build", 1, "failed"),
        ("plan", 2, "succeeded"),
        ("build", 2, "succeeded"),
    ]


async def test_going_back_is_bounded(harness: Harness) -> None:
    plan = step("plan", "true")
    build = step("build", "exit 1", needs=["plan"], on_failure={"go_to": "plan", "at_most": 2})

    result = await harness.run(one_phase(plan, build))

    assert result["end"] == "failed"
    assert result["reason"] == "Step build: 3 of 3 attempts failed; it went back to plan 2 times already"
    assert sum(s["step"] == "plan" for s in result["steps"]) == 3


async def test_a_gate_goes_back_to_a_step_of_an_earlier_phase(harness: Harness) -> None:
    count = harness.workspace / "count"
    gate = {
        "command": ["/bin/sh", "-c", f"test $(wc -l < {count}) -ge 2"],
        "on_failure": {"go_to": "plan", "at_most": 1},
    }
    phases = [
        {"id": "T0", "steps": [step("plan", f"echo x >> {count}")]},
        {"id": "T1", "steps": [step("build", "true")], "gate": gate},
    ]

    result = await harness.run({"name": "checks", "scope": "acme/api", "phases": phases})

    assert result["end"] == "succeeded"
    assert [(s["step"], s["visit"]) for s in result["steps"]] == [("plan", 1), ("build", 1), ("plan", 2), ("build", 2)]


async def test_a_step_visited_again_writes_records_under_keys_of_its_own(harness: Harness) -> None:
    count = harness.workspace / "count"
    plan = step("plan", f"echo x >> {count}")
    build = step("build", f"test $(wc -l < {count}) -ge 2", needs=["plan"], on_failure={"go_to": "plan", "at_most": 1})

    await harness.run(one_phase(plan, build))

    keys = [message["idempotency_key"] for _, message in harness.memory.calls if message["idempotency_key"]]
    assert len(keys) == len(set(keys))


async def test_a_run_ends_with_exactly_one_run_final(harness: Harness) -> None:
    await harness.run(one_phase(step("build", "true")))

    finals = [m for m in harness.memory.of("DocumentDecision") if m["kind"] == "run_final"]
    assert [final["end"] for final in finals] == ["succeeded"]
