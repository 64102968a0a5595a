"""What a step does in one environment is known there, however often it runs in others."""

import pytest

from memory.stores import Stores
from tests.fixtures_postgres import Database
from tests.memory.acted_step import Acted, ActedStep, cured_by

HOME = {"image": "home"}
ELSEWHERE = """
insert into step_outcomes (
  tenant, scope, step, run, branch, visit, environment, prevented_by, ended, position, recorded_at
)
select tenant, scope, step, '{run}-elsewhere-' || n, '', 1, 'elsewhere-' || n % 40, null, 'succeeded',
  nextval('journal_position_seq'), now()
from step_outcomes, generate_series(1, 150) as n
where run = '{run}';
"""


@pytest.fixture
def step(stores: Stores) -> ActedStep:
    return ActedStep(stores, environment=HOME)


async def ran_amid_others(step: ActedStep, database: Database, run: str) -> Acted:
    """Run at home; then the step runs healthily in many other environments."""
    acted = await step.run(run, cured_by("free-port"))
    await database.run_sql(ELSEWHERE.format(run=run))
    return acted


async def test_runs_in_other_environments_do_not_keep_a_failure_from_being_prevented(
    step: ActedStep, database: Database
) -> None:
    for number in (1, 2):
        await ran_amid_others(step, database, f"rel-{number}")
    assert (await step.run("rel-3", cured_by("free-port"))).actions == ["prevent free-port"]


async def test_every_tenth_run_of_an_environment_is_held_out_amid_runs_of_others(
    step: ActedStep, database: Database
) -> None:
    acted = [await ran_amid_others(step, database, f"rel-{number}") for number in range(1, 13)]
    held_out = [number for number, one in enumerate(acted, 1) if one.packages[0].prevention is None]
    assert held_out == [1, 2, 12]
