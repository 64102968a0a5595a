"""What is known of a failure is read by its signature alone, whatever else is on record."""

from benchmarks.dispatch import KEYS, LOOK_UPS, PLACE, plans, teach
from benchmarks.lookup import fill
from memory.observations import LATEST
from memory.stores import Stores
from tests.fixtures_postgres import Database

TAUGHT = 3

# As many occurrences of the failure again as are read at most, each a failure and a success.
_MORE = """
insert into attempts (
  tenant, scope, step, occurrence, attempt, run, outcome, source, signature, action, repair, position, recorded_at
)
select 'local', '{scope}', '{step}', 'more-' || n, attempt, 'more-' || n,
  case attempt when 1 then 'failed' else 'succeeded' end, 'step', case attempt when 1 then '{key}' end,
  case attempt when 1 then 'none' else 'repair' end, case attempt when 1 then null else 'mend' end,
  1000000 + n * 2 + attempt, now()
from generate_series(1, {count}) as n, generate_series(1, 2) as attempt;
"""


async def test_a_look_up_probes_once_for_each_key_and_for_each_of_the_latest_occurrences(
    stores: Stores, database: Database
) -> None:
    """`make measure` shows the same of a large table."""
    for script in fill(1_000):
        await database.run_sql(script)
    for number in range(TAUGHT):
        await teach(stores, f"known-{number}")
    told = await plans(stores)
    assert told["observations"]["probes"]["attempts_by_signature"] == len(KEYS) == 2
    assert told["observations"]["probes"]["attempts_pkey"] == TAUGHT
    _reads_nothing_else(told)

    await database.run_sql(_MORE.format(**PLACE, key=KEYS[0], count=LATEST))
    many = await plans(stores)
    assert many["observations"]["probes"]["attempts_by_signature"] == len(KEYS)
    assert many["observations"]["probes"]["attempts_pkey"] == LATEST
    _reads_nothing_else(many)


def _reads_nothing_else(told: dict[str, dict[str, object]]) -> None:
    read = {name: (one["read_in_full"], one["thrown_away"]) for name, one in told.items()}
    assert read == dict.fromkeys(LOOK_UPS, ([], 0))
