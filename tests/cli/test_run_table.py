"""The table of a run: its steps in the order they began, and those that did not."""

from poimen.contracts.definition import WorkflowDef
from poimen.contracts.run_io import StepSummary
from worker.cli.run_table import in_order_of_start, run_table

STEP = {"run": {"command": ["x"]}}
DEFINITION = WorkflowDef.model_validate(
    {
        "name": "n",
        "scope": "s",
        "phases": [
            {
                "id": "T0",
                "steps": [
                    {"id": "slow", **STEP},
                    {"id": "late", "needs": ["fast"], **STEP},
                    {"id": "fast", **STEP},
                ],
            },
            {"id": "T1", "steps": [{"id": "last", **STEP}]},
        ],
    }
)


def ended(phase: str, step: str, visit: int = 1) -> StepSummary:
    return StepSummary(phase=phase, step=step, visit=visit, end="succeeded", attempts=1, seconds=1.0, reason="passed")


def order(*steps: StepSummary) -> list[tuple[str, int]]:
    return [(step.step, step.visit) for step in in_order_of_start(DEFINITION, steps)]


def test_a_step_that_began_first_and_ended_last_stands_first() -> None:
    ends = [ended("T0", "fast"), ended("T0", "late"), ended("T0", "slow"), ended("T1", "last")]
    assert order(*ends) == [("slow", 1), ("fast", 1), ("late", 1), ("last", 1)]


def test_what_comes_again_after_a_way_back_stands_after_it() -> None:
    ends = [ended("T0", "fast"), ended("T0", "late"), ended("T0", "fast", 2), ended("T0", "late", 2)]
    assert order(*ends) == [("fast", 1), ("late", 1), ("fast", 2), ("late", 2)]


def test_a_step_that_was_not_started_has_a_row_that_says_so() -> None:
    rows = [row.split() for row in run_table(DEFINITION, [ended("T0", "fast")]).splitlines()[1:]]
    assert rows == [
        ["T0", "fast", "1", "1.0", "succeeded", "passed"],
        ["T0", "slow", "0", "not", "started"],
        ["T0", "late", "0", "not", "started"],
        ["T1", "last", "0", "not", "started"],
    ]


def test_a_step_that_failed_says_with_what() -> None:
    failed = ended("T0", "fast").model_copy(
        update={"end": "failed", "reason": "3 of 3 attempts failed", "failure": "ConnectionRefusedError: smtp refused"}
    )
    assert "3 of 3 attempts failed: ConnectionRefusedError: smtp refused" in run_table(DEFINITION, [failed])
