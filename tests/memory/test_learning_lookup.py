"""What is known of a failure is read by its signature alone, whatever else is on record."""

from benchmarks.dispatch import LOOK_UPS, plan
from benchmarks.lookup import fill
from memory.stores import Stores
from tests.fixtures_postgres import Database


async def test_a_look_up_by_signature_probes_each_index_once_for_each_key(stores: Stores, database: Database) -> None:
    """The failure has two keys here, for an alias stands for it; `make measure` shows the same in a large table."""
    for script in fill(1_000):
        await database.run_sql(script)
    told = {name: await plan(stores, query, values) for name, (query, values) in LOOK_UPS.items()}
    assert told["observations"]["probes"]["attempts_by_signature"] == 2
    assert {name: (one["read_in_full"], one["thrown_away"]) for name, one in told.items()} == dict.fromkeys(
        LOOK_UPS, ([], 0)
    )
    assert all(count <= 2 for one in told.values() for count in one["probes"].values())
