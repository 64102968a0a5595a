"""The live pages: one line an attempt, nothing in a text can break the table, and no text can grow a page."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poimen.contracts.memory_calls import AppliedAction, AttemptRecord, BudgetLeft, ContextPackage, Prevention
from poimen.contracts.run_io import StepSummary
from poimen.details import GAP, budget, run_details, step_details
from poimen.step_rules import StepPolicy
from poimen.step_state import Progress
from tests.step.scripted_world import World, analysis, failures, package, run, spec


def page(world: World, activity: str) -> str:
    """The latest page that shows the activity."""
    latest = [progress for progress in world.pages if progress.activity == activity][-1]
    return step_details(latest).replace(GAP, "")


async def test_a_steps_page_shows_what_each_attempt_came_to_and_what_memory_said() -> None:
    world = failures(1).advise(
        {
            **analysis("repair", repair="free-port", because="worked 2 of 2", signature="s1:4be1" + "0" * 28),
            "seen_before": {"occurrences": 2, "runs": 2},
        }
    )

    await run(world, spec(StepPolicy(repairs=("free-port",))))

    lines = page(world, "running").split("\n")
    assert lines[0] == "**serve** attempt 2 of 4, running"
    assert lines[4] == (
        "| 1 | failed, exit 1 | 0.0 | `s1:4be1…` port taken, seen in 2 runs | repair `free-port`: worked 2 of 2 |"
    )
    assert lines[5] == "| 2 | running | | | |"
    assert lines[-1] == "**Left** 3 attempts"


async def test_advice_that_is_not_followed_is_shown_with_what_was_done_instead() -> None:
    world = failures(1).advise(analysis("stop", because="nothing helped"))

    await run(world, spec(StepPolicy(repairs=("free-port",)), memory="observe"))

    assert "| stop: nothing helped (not followed; policy: repair free-port is next in the declared order) |" in page(
        world, "running"
    )


async def test_a_steps_page_counts_what_was_delivered_and_names_the_tiers() -> None:
    lesson: dict[str, Any] = {
        "id": "les-1",
        "kind": "lesson",
        "level": "L1",
        "tier": "signatures",
        "title": "t",
        "text": "t",
        "origin": "o",
        "trust": "observed",
        "recorded_at": "2026-11-29T12:00:00Z",
        "because": "b",
    }
    tiers = [
        {"tier": "signatures", "status": "answered", "elapsed_ms": 4},
        {"tier": "vectors", "status": "late"},
    ]
    skill = {"id": "ski-1", "name": "free-a-port", "because": "b"}
    world = failures(0)
    world.answers["GetContext"] = lambda message: package(
        message, items=[lesson, {**lesson, "kind": "reference"}, lesson], skills=[skill], tiers=tiers
    )

    await run(world)

    assert "**Delivered** 2 lessons, 1 reference, 1 skill (`ctx-1…`) · signatures 4 ms, vectors late" in page(
        world, "running"
    )


async def test_the_last_page_says_how_it_ended_and_why() -> None:
    world = failures(9).lose_memory()

    await run(world, spec(StepPolicy(attempts=2)))

    assert page(world, "ended").startswith("**serve** failed: 2 of 2 attempts failed\n")


async def test_lost_memory_is_shown_with_the_records_that_wait() -> None:
    world = failures(1).lose_memory()

    await run(world)

    assert "**Memory** lost, next try within 30 s, 3 records kept for later" in page(world, "ended")


@pytest.mark.parametrize(
    ("mode", "line"), [("off", "**Memory** off"), ("observe", "**Memory** observing: records, delivers nothing")]
)
async def test_a_page_says_when_memory_is_not_listened_to(mode: str, line: str) -> None:
    world = failures(0)

    await run(world, replace(spec(), memory=mode))  # type: ignore[arg-type]  # because pytest parameters are text

    assert line in page(world, "ended")


def progress(**more: Any) -> Progress:
    known: dict[str, Any] = {
        "spec": spec(),
        "attempts": (),
        "package": None,
        "analysis": None,
        "prevention": None,
        "left": BudgetLeft(attempts=4),
        "activity": "running",
        "silent": False,
        "pending": 0,
    }
    return Progress(**{**known, **more})


@given(st.text() | st.text(alphabet="|\\`[]<>*\n!(x"))
def test_no_text_breaks_a_table_or_makes_a_link_an_image_or_a_tag(text: str) -> None:
    record = AttemptRecord(
        attempt=1,
        outcome="failed",
        source="step",
        title=text,
        signature=text or "s",
        next_move=text,
        applied=AppliedAction(),
    )
    known = Prevention(repair="free-port", because=text)

    shown = step_details(progress(attempts=(record,), prevention=known)).replace(GAP, "")

    [row] = [line for line in shown.split("\n") if line.startswith("| 1 |")]
    assert _cells(row) == 5
    unescaped = shown.replace("\\\\", "").replace("\\[", "").replace("\\<", "")
    assert "[" not in unescaped.split("`")[-1]
    assert "<" not in unescaped.split("`")[-1]


def _cells(row: str) -> int:
    """Count cells as a markdown reader does: a backslash takes the character after it along."""
    cells, skip = -1, False
    for character in row:
        if skip:
            skip = False
        elif character == "\\":
            skip = True
        elif character == "|":
            cells += 1
    return cells


def test_a_page_of_a_thousand_attempts_shows_the_latest() -> None:
    records = tuple(
        AttemptRecord(attempt=number, outcome="failed", source="step", next_move="x" * 4_000)
        for number in range(1, 1_001)
    )

    shown = step_details(progress(attempts=records)).replace(GAP, "")

    assert "| 981 |" in shown
    assert "| 980 |" not in shown
    assert len(shown) < 20_000


def test_a_prevention_is_shown() -> None:
    known = Prevention(repair="free-port", because="the last 2 runs began with it")

    assert "**Prevented** `free-port` ran first: the last 2 runs began with it" in step_details(
        progress(prevention=known)
    )


def test_a_refusal_of_memory_is_shown() -> None:
    assert "**Memory** refused AnalyzeError: TooLarge" in step_details(progress(refusal="AnalyzeError: TooLarge"))


def test_an_empty_package_delivered_nothing() -> None:
    empty = ContextPackage.model_validate_json('{"package_id": "ctx-1", "created_at": "2026-11-29T12:00:00Z"}')

    assert "**Delivered** nothing" in step_details(progress(package=empty))


def test_a_runs_page_has_a_row_a_step() -> None:
    steps = (
        StepSummary(step="build", phase="T0", visit=1, end="succeeded", attempts=2, seconds=3.25, reason="passed"),
        StepSummary(step="a|b", phase="T0", visit=2, end="failed", attempts=1, seconds=0.0, reason="x\ny"),
    )

    shown = run_details("checks", "phase T0", steps, BudgetLeft(attempts=27, time_seconds=1_620.0))
    lines = shown.replace(GAP, "").split("\n")

    assert lines[0] == "**checks** phase T0"
    assert lines[4:6] == [
        "| build | 1 | succeeded | 2 | 3.2 | passed |",
        "| a\\|b | 2 | failed | 1 | 0.0 | x y |",
    ]
    assert lines[-1] == "**Left** 27 attempts, 27 min"


def test_a_runs_page_names_what_did_not_go_as_asked() -> None:
    shown = run_details("checks", "phase T0", (), BudgetLeft(attempts=27), ("HarnessRun: memroy is not known",))
    assert "**Warning** HarnessRun: memroy is not known" in shown


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (BudgetLeft(), "no limit"),
        (BudgetLeft(attempts=1, tokens=1), "1 attempt, 1 token"),
        (BudgetLeft(attempts=0, time_seconds=0.0), "0 attempts, 0 s"),
        (BudgetLeft(time_seconds=0.25), "0.2 s"),
        (BudgetLeft(time_seconds=90_000.0), "1 d"),
    ],
)
def test_a_budget_is_said_in_words(left: BudgetLeft, words: str) -> None:
    assert budget(left) == words
