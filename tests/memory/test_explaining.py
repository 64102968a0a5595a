import pytest

from memory.errors import NotFound
from memory.stores import Stores
from memory.why import explain
from tests.memory.acted_step import ActedStep, cured_by, incurable


async def test_a_prevented_run_is_explained_in_two_lines(stores: Stores) -> None:
    step = ActedStep(stores)
    for number in (1, 2, 3):
        await step.run(f"rel-{number}", cured_by("free-port"))
    lines = (await explain(stores, "local", "rel-3", "serve")).text.splitlines()
    assert lines[0] == (
        "repair free-port before attempt 1: the last 2 runs began with address in use; free-port worked 2 of 2"
    )
    assert lines[1].startswith("delivered les-")
    assert lines[1].endswith(" · passed, attempt 1")
    assert len(lines) == 2


async def test_a_failure_tells_what_memory_said_and_that_it_was_followed(stores: Stores) -> None:
    step = ActedStep(stores)
    for number in (1, 2):
        await step.run(f"rel-{number}", cured_by("free-port"))
    lines = (await explain(stores, "local", "rel-2")).text.splitlines()
    assert lines[0].startswith("attempt 1 failed: address in use (s1:")
    assert "seen in 1 earlier run" in lines[0]
    assert lines[1] == ("  memory said repair free-port: address in use, known since rel-1; free-port worked 1 of 1")
    assert lines[2] == "  followed"


async def test_advice_that_was_not_followed_says_what_was_done_instead(stores: Stores) -> None:
    step = ActedStep(stores, most_attempts=2)
    await step.run("rel-1", cured_by("free-port"))
    await ActedStep(stores).run("rel-2", cured_by("free-port"))
    await step.run("rel-3", incurable(), follow=False)
    text = (await explain(stores, "local", "rel-3")).text
    assert "not followed: advice: as memory said" in text
    assert text.splitlines()[-1].endswith("failed after 2 attempts: ended failed")


async def test_a_workflow_id_used_again_means_its_latest_run(stores: Stores) -> None:
    step = ActedStep(stores)
    await step.run("rel-1", cured_by("free-port"))
    await step.run("rel-2", cured_by("free-port"))
    assert (await explain(stores, "local", "rel-2/serve")).run == "rel-2"
    assert (await explain(stores, "local", "rel-2")).name == "rel-2"


async def test_an_unknown_run_and_an_unknown_step_are_told_clearly(stores: Stores) -> None:
    with pytest.raises(NotFound, match="No run of that name is on record"):
        await explain(stores, "local", "rel-99")
    await ActedStep(stores).run("rel-1", cured_by("free-port"))
    with pytest.raises(NotFound, match="rel-1 has no step of that name"):
        await explain(stores, "local", "rel-1", "deploy")
    with pytest.raises(NotFound):
        await explain(stores, "other", "rel-1")


async def test_what_a_step_did_before_a_reset_and_after_it_is_told_apart(stores: Stores) -> None:
    await ActedStep(stores, most_attempts=2).run("rel-1", incurable(), follow=False)
    await ActedStep(stores, branch="4f2a91c0").run("rel-1", cured_by("free-port"))
    before, after = (await explain(stores, "local", "rel-1", "serve")).steps
    assert (before.label, after.label) == ("serve", "serve, branch 4f2a91c0")
    assert (before.end, after.end) == ("failed", "succeeded")
    # Each tells its own attempts and what was delivered to it.
    assert [attempt.failed for attempt in before.attempts] == [True, True]
    assert [attempt.failed for attempt in after.attempts][-1] is False
    assert before.empty_reasons
    assert after.delivered
