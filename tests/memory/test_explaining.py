import pytest

from memory.document import document
from memory.errors import NotFound
from memory.stores import Stores
from memory.telling import AttemptTold, StepTold, tell_step
from memory.why import explain
from poimen.contracts.memory_calls import AppliedAction, DocumentDecision
from tests.memory.acted_step import Acted, ActedStep, caller, cured_by, incurable


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
    assert lines[0].startswith("attempt 1 failed: address in use (s2:")
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


async def test_earlier_runs_of_a_workflow_id_are_named(stores: Stores) -> None:
    for run in ("run-a", "run-b", "run-c"):
        final = DocumentDecision(scope="acme/api", run=run, kind="run_final", decision="done")
        await document(final, caller(workflow_id="rel-7", run_id=f"id-{run}"), stores)
    latest = await explain(stores, "local", "rel-7")
    assert (latest.run, latest.earlier) == ("run-c", ("run-b", "run-a"))
    assert latest.text.splitlines() == [
        "run done",
        "This is the run of rel-7 that memory came to know last; before it the id had runs run-b, run-a.",
    ]
    assert (await explain(stores, "local", "run-a")).text == "run done"


async def test_a_record_that_is_delivered_late_makes_no_older_run_the_latest(stores: Stores) -> None:
    for number, run in enumerate(("run-a", "run-b", "run-a")):
        late = DocumentDecision(scope="acme/api", run=run, kind="note", decision=f"number {number}")
        await document(late, caller(workflow_id="rel-7", run_id=f"id-{run}"), stores)
        await document(late, caller(workflow_id="rel-8/serve", run_id=f"id-{run}"), stores)
    latest = await explain(stores, "local", "rel-7")
    assert (latest.run, latest.earlier) == ("run-b", ("run-a",))
    assert (await explain(stores, "local", "rel-8")).run == "run-b"


async def test_a_run_is_told_with_its_failed_gates_and_its_end(stores: Stores) -> None:
    await ActedStep(stores).run("rel-1", cured_by("free-port"))
    for kind, decision in (
        ("gate", "gate of T0 passed"),
        ("gate", "gate of T1 failed: no page"),
        ("run_final", "failed: Gate of T1 failed: no page"),
    ):
        call = DocumentDecision(scope="acme/api", run="rel-1", kind=kind, decision=decision)
        await document(call, caller(workflow_id="rel-1", run_id="id-rel-1"), stores)
    end = ["gate of T1 failed: no page", "run failed: Gate of T1 failed: no page"]
    assert (await explain(stores, "local", "rel-1")).text.splitlines()[-2:] == end
    assert "gate" not in (await explain(stores, "local", "rel-1", "serve")).text


async def test_a_failure_whose_title_hides_its_numbers_is_told_in_its_own_words(stores: Stores) -> None:
    await ActedStep(stores).run("rel-1", incurable("the judge scored 0.42, and 0.5 passes"))
    assert "attempt 1 failed: the judge scored 0.42, and 0.5 passes (" in (await explain(stores, "local", "rel-1")).text


async def test_steps_stand_in_the_order_they_began(stores: Stores) -> None:
    slow, acted = ActedStep(stores, step="slow"), Acted()
    await slow._recall("rel-1", 1, acted)
    await ActedStep(stores, step="fast").run("rel-1", cured_by("free-port"))
    await slow._learned("rel-1", 1, AppliedAction(), acted)
    assert [step.step for step in (await explain(stores, "local", "rel-1")).steps] == ["slow", "fast"]


def _step_told(end: str, reason: str, *attempts: AttemptTold) -> StepTold:
    return StepTold(
        step="serve",
        visit=1,
        branch=None,
        end=end,
        reason=reason,
        observed=False,
        prevention=None,
        held_out=False,
        attempts=attempts,
        delivered=(),
        empty_reasons=(),
        silent_tiers=(),
    )


def test_a_reason_that_counts_the_attempts_is_not_told_twice() -> None:
    assert tell_step(_step_told("failed", "1 of 1 attempts failed")) == ["failed: 1 of 1 attempts failed"]


def test_a_step_stopped_in_its_first_attempt_counts_none() -> None:
    reason = "the step was cancelled during attempt 1"
    assert tell_step(_step_told("cancelled", reason)) == [f"cancelled: {reason}"]


def test_a_report_that_could_not_be_read_is_told_also_when_the_attempt_passed() -> None:
    passed = AttemptTold(
        number=1,
        failed=False,
        source=None,
        signature=None,
        title=None,
        seen_runs=0,
        applied=AppliedAction(),
        advice=None,
        next_move="",
        warnings=("the report is not JSON; it was not read",),
    )
    lines = tell_step(_step_told("succeeded", "", passed))
    assert lines == ["attempt 1, warning: the report is not JSON; it was not read", "passed, attempt 1"]


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
