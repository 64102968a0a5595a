"""The table and the line above it tell what is on record."""

import io

from tests.demo.conftest import advised, demo_run, prevented, step
from worker.demo.progress import RunsLine
from worker.demo.table import render_table, why_differs

WHY_PREVENTED = "the last 2 runs began with port taken; free-port worked 2 of 2"
STOPPED = step(1, "stopped", reason="stopped: hopeless")


def test_the_table_shows_attempts_by_step_and_run_with_totals() -> None:
    runs = [
        demo_run("observe", serve=step(3), sign=step(9, "failed")),
        demo_run("on-1", serve=step(2), sign=step(9, "failed")),
        demo_run(
            "on-2", serve=prevented("free-port", WHY_PREVENTED), sign=step(1, "stopped", reason="stopped: hopeless")
        ),
        demo_run("off", serve=step(3), sign=step(9, "failed")),
    ]

    assert render_table(runs).splitlines() == [
        "Attempts (F: failed)",
        "step    obs  on-1  on-2  off   why on-2 differs",
        "serve     3     2     1    3   known since observe: port taken;",
        "                               repair free-port ran first, worked 2 of 2",
        "sign     9F    9F    1F   9F   known since observe: port taken; stopped: hopeless",
        "all      12    11     2   12",
        "seconds  12    12    12   12",
    ]


def test_no_line_is_wider_than_100_columns_whatever_the_reason() -> None:
    reason = "the service said " + "something long " * 40
    names = ["observe", *(f"on-{number}" for number in range(1, 5)), "off"]
    runs = [demo_run(name, a_step_with_a_long_name=step(1000, "failed", reason=reason)) for name in names]

    lines = render_table(runs).splitlines()

    assert max(map(len, lines)) <= 100
    assert lines[3].endswith("…")


def test_a_step_that_a_run_never_came_to_is_a_dash() -> None:
    runs = [demo_run("observe", a=step(3), b=step(1)), demo_run("on-1", a=step(2, "failed", reason="gone"))]

    assert render_table(runs).splitlines()[3] == "b         1     -   not run"


def test_why_names_the_failure_since_when_it_is_known_and_the_repair_that_ended_it() -> None:
    repaired = advised(step(2, kind="repair", repair="free-port"), "port taken, known since x; free-port worked 1 of 1")
    runs = [demo_run("observe", serve=step(3)), demo_run("on-1", serve=repaired)]

    assert why_differs(runs, "serve") == "known since observe: port taken; repair free-port worked 1 of 1"


def test_why_names_the_wait_and_who_asked_for_it() -> None:
    waited = advised(step(2, kind="wait", waited_seconds=6), "the service asked for 6 s")
    runs = [demo_run("observe", a=step(3)), demo_run("on-1", a=waited)]

    assert why_differs(runs, "a") == "known since observe: port taken; waited 6 s: the service asked for 6 s"


def test_why_does_not_call_known_what_the_run_saw_first() -> None:
    waited = advised(step(2, kind="wait", waited_seconds=1), "not yet known: first time here")

    assert why_differs([demo_run("on-1", a=waited)], "a") == (
        "seen for the first time: port taken; waited 1 s: not yet known: first time here"
    )


def test_why_keeps_the_whole_reason_when_it_names_no_counts() -> None:
    runs = [demo_run("on-1", a=prevented("free-port", "a person said so"))]

    assert why_differs(runs, "a") == "repair free-port ran first: a person said so"


def test_a_long_name_of_a_failure_leaves_room_for_the_reason() -> None:
    records = [
        record.model_copy(update={"title": f"KeyError: {'long ' * 40}"}) for record in step(2, "failed").attempts
    ]
    result = step(2, "stopped", reason="stopped: nothing helped").model_copy(update={"attempts": records})

    told = render_table([demo_run("observe", sign=result), demo_run("on-1", sign=result)])

    assert " ".join(told.split()).count("nothing helped") == 1


def test_off_a_terminal_the_line_holds_what_has_ended_and_no_control_characters() -> None:
    stream = io.StringIO()
    line = RunsLine(stream)

    line.now("observe", "serve, attempt 2")
    line.ended("observe", 27.4)
    line.ended("on-1", 9.6)
    line.close()

    assert stream.getvalue() == "runs  observe 27 s · on-1 10 s\n"
