"""The learning bench through the real store decides as the advice code alone does."""

import pytest

from benchmarks.learning_store import play_stored
from benchmarks.learning_world import World
from memory import observations
from memory.stores import Stores

KINDS = ("one_repair", "permanent", "transient", "stacked", "repair_announced", "permanent_to_repair")
SMALL = World(scopes=1, runs=12, steps=dict.fromkeys(KINDS, 1), incident_rates=(1.0,), drift_runs=(6, 8), churn=0.1)


async def test_the_store_decides_as_the_advice_code_alone(stores: Stores) -> None:
    played = await play_stored(SMALL, [1], stores)
    assert played.differences == []
    assert played.decisions > 100
    assert any(row.stopped for row in played.rows[0])
    assert any(row.since_drift for row in played.rows[0])


async def test_a_store_that_forgets_is_told_by_its_decisions(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observations, "LATEST", 1)
    world = World(scopes=1, runs=8, steps={"transient": 1, "one_repair": 1}, incident_rates=(1.0,))
    assert (await play_stored(world, [1], stores)).differences
