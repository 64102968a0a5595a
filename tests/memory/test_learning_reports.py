from typing import Any

import pytest

from memory.analyze import analyze
from memory.learn import learn
from memory.stores import Stores
from poimen.contracts.memory_calls import AnalyzeError, AppliedAction, Learned, LearnFromExecution
from tests.fixtures_postgres import Database
from tests.memory.acted_step import PORT_TAKEN, caller

PLACE = {"scope": "acme/api", "step": "serve"}
SECRET = "password=hunter2x9"


async def told(stores: Stores, **values: Any) -> Learned:
    return await learn(LearnFromExecution(**PLACE, **{"outcome": "succeeded", **values}), caller(), stores)


async def failed(stores: Stores, **values: Any) -> None:
    await analyze(AnalyzeError(**PLACE, error=PORT_TAKEN, **values), caller(), stores)


@pytest.mark.parametrize(
    ("lesson", "result", "state"),
    [
        ("Start the proxy first.", f"log: {SECRET}", "active"),
        (f"Log in with {SECRET} first.", "", "quarantined"),
    ],
    ids=["in another field", "in the lesson"],
)
async def test_a_lesson_is_held_back_for_a_secret_of_its_own(
    stores: Stores, database: Database, lesson: str, result: str, state: str
) -> None:
    answer = await told(stores, lesson=lesson, result=result)
    assert any("masked" in warning for warning in answer.warnings)
    assert any("the lesson held a secret" in warning for warning in answer.warnings) == (state == "quarantined")
    assert (await database.run_sql("select state from items;")).strip() == state


async def test_a_success_after_nothing_is_not_told_as_another_runs_cure(stores: Stores) -> None:
    repaired = AppliedAction(kind="repair", repair="free-port", exit_code=0)
    await failed(stores, run="rel-1")
    cured = await told(stores, run="rel-1", attempt=2, applied=repaired)
    assert cured.learned == ("free-port ended address in use, now 1 of 1",)
    # Attempt 2 was lost: nobody knows what it answered, so nothing is credited with what followed it.
    await failed(stores, run="rel-2")
    assert (await told(stores, run="rel-2", attempt=3)).learned == ()


async def test_a_late_report_names_the_cure_of_its_own_run(stores: Stores) -> None:
    await failed(stores, run="rel-1")
    await failed(stores, run="rel-2")
    await told(stores, run="rel-2", attempt=2, applied=AppliedAction(kind="repair", repair="reboot", exit_code=0))
    free_port = AppliedAction(kind="repair", repair="free-port", exit_code=0)
    late = await told(stores, run="rel-1", attempt=2, applied=free_port)
    assert late.learned == ("free-port ended address in use, now 1 of 1",)
