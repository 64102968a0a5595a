"""What a step leaves with its executor: checkpoints for its next attempt, its output for its judge, by tenant."""

from typing import Any

import pytest

from tests.workflows.conftest import Harness, one_phase, step


def _checkpointed(harness: Harness, last: str, **more: Any) -> dict[str, Any]:
    """A step whose first attempt leaves a checkpoint and fails; ``last`` is what the other attempts do."""
    first = 'if [ $POIMEN_ATTEMPT = 1 ]; then printf "half done" > $POIMEN_CHECKPOINT; exit 1; fi'
    return step("build", f"{first}; cp $POIMEN_CHECKPOINT found-$POIMEN_ATTEMPT; {last}", **more)


async def test_a_checkpoint_is_handed_to_the_next_attempt(harness: Harness) -> None:
    result = await harness.run(one_phase(_checkpointed(harness, "true")))

    assert (result["end"], result["attempts"]) == ("succeeded", 2)
    assert (harness.workspace / "found-2").read_text() == "half done"


async def test_a_checkpoint_stays_until_an_attempt_leaves_another(harness: Harness) -> None:
    result = await harness.run(one_phase(_checkpointed(harness, "[ $POIMEN_ATTEMPT = 3 ]")))

    assert (result["end"], result["attempts"]) == ("succeeded", 3)
    assert (harness.workspace / "found-3").read_text() == "half done"


async def test_what_verifies_repairs_or_follows_a_step_gets_no_checkpoint_of_it(harness: Harness) -> None:
    none = ["/bin/sh", "-c", "test ! -e $POIMEN_CHECKPOINT || touch leaked"]
    body = _checkpointed(
        harness, "true", verify={"command": none}, judge={"command": ["/bin/sh", "-c", f"{none[2]}; echo 1"]}
    )
    body["repairs"] = [{"id": "mend", "command": none}]

    result = await harness.run(one_phase(body, step("after", none[2], needs=["build"])))

    assert result["end"] == "succeeded"
    assert not (harness.workspace / "leaked").exists()


async def test_a_step_that_is_visited_again_begins_without_a_checkpoint(harness: Harness) -> None:
    first = step("first", "test ! -e $POIMEN_CHECKPOINT || touch leaked; echo x > $POIMEN_CHECKPOINT")
    again = step("again", "[ -e once ] || { touch once; exit 1; }", needs=["first"], retry={"attempts": 1})
    again["on_failure"] = {"go_to": "first", "at_most": 1}

    result = await harness.run(one_phase(first, again))

    assert [item["visit"] for item in result["steps"] if item["step"] == "first"] == [1, 2]
    assert not (harness.workspace / "leaked").exists()


async def test_a_judge_reads_the_whole_output(harness: Harness) -> None:
    body = step("plan", "seq 1 20000", judge={"command": ["/bin/sh", "-c", "tee seen | wc -l > lines; echo 1"]})

    result = await harness.run(one_phase(body))

    assert result["end"] == "succeeded"
    assert (harness.workspace / "lines").read_text().strip() == "20000"
    assert (harness.workspace / "seen").read_text().endswith("19999\n20000\n")


async def test_a_judge_reads_the_reports_output_if_there_is_one(harness: Harness) -> None:
    body = step("plan", """echo noise; echo '{"output": "the plan"}' > $POIMEN_RESULT""")
    body["judge"] = {"command": ["/bin/sh", "-c", "cat > seen; echo 1"]}

    await harness.run(one_phase(body))

    assert (harness.workspace / "seen").read_text() == "the plan"


@pytest.mark.parametrize(("options", "folder"), [({}, "-"), ({"tenant": "acme"}, "acme")])
async def test_outputs_are_kept_below_their_tenant(harness: Harness, options: dict[str, str], folder: str) -> None:
    await harness.run(one_phase(step("build", "echo made", verify={"command": ["echo", "fine"]})), **options)

    blobs = harness.workspace / "state" / "blobs"
    kept = {path.relative_to(blobs).parts[0]: path.read_text() for path in blobs.rglob("*") if path.is_file()}
    assert set(kept) == {folder}
