import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from memory.errors import StoreUnavailable
from memory.journal import Follower, RecordedEvent, follow, record
from memory.journal.follow import FollowerSettings
from memory.postgres import Pool, listen, tenant_transaction
from tests.fixtures_postgres import Database
from tests.journal.conftest import MakeEvent, MakeSettings

SECONDS = 20.0
# No test waits for these: leases are ended by hand, and polling is what the wake-up is tested against.
SLOW = FollowerSettings(poll_seconds=60, deadline_seconds=SECONDS)


class Reader:
    """Keeps what it is handed; fails where it is told to."""

    def __init__(self, poison: str = "", error: Exception | None = None) -> None:
        self.events: list[RecordedEvent] = []
        self.tries = 0
        self.poison = poison
        self.error = error or LookupError()

    async def apply(self, events: Sequence[RecordedEvent]) -> None:
        if self.poison and any(self.poison == event.key for event in events):
            self.tries += 1
            raise self.error
        self.events.extend(events)

    @property
    def keys(self) -> list[str]:
        return [event.key for event in self.events]


async def write(pool: Pool, make_event: MakeEvent, *keys: str, tenant: str = "local") -> None:
    for key in keys:
        async with tenant_transaction(pool, tenant, deadline_seconds=SECONDS) as tx:
            await record(tx, make_event(key, tenant=tenant))


async def drain(follower: Follower) -> None:
    while await follower.step():
        pass


async def sql(database: Database, statement: str) -> str:
    return (await database.run_sql(statement)).strip()


async def test_with_eight_writers_some_of_which_roll_back_a_follower_loses_nothing_and_doubles_nothing(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    chance = random.Random(5)
    reader, committed, ended = Reader(), list[tuple[int, str]](), asyncio.Event()
    follower = Follower(pool, "local", "reader", reader.apply, FollowerSettings(batch=50, deadline_seconds=SECONDS))

    async def write_one(key: str) -> None:
        async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as tx:
            place = await record(tx, make_event(key))
            await asyncio.sleep(chance.uniform(0, 0.01))
            if chance.random() < 0.1:
                raise LookupError
        committed.append((place.position, key))

    async def write_many(writer: int) -> None:
        for number in range(40):
            await asyncio.gather(write_one(f"{writer}:{number}"), return_exceptions=True)

    async def follow() -> None:
        while not ended.is_set():
            await follower.step()
        await drain(follower)

    following = asyncio.create_task(follow())
    await asyncio.gather(*(write_many(writer) for writer in range(8)))
    ended.set()
    await following
    assert 200 < len(committed) < 320
    assert sorted(reader.keys) == sorted(key for _, key in committed)
    assert committed != sorted(committed), "no transaction overtook another: the test shows nothing"
    assert await sql(database, "select count(*) from outbox;") == "0"


async def test_an_event_that_commits_late_is_not_passed_over(pool: Pool, make_event: MakeEvent) -> None:
    reader = Reader()
    follower = Follower(pool, "local", "reader", reader.apply, SLOW)
    async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as late:
        await record(late, make_event("late"))
        await write(pool, make_event, "early")
        await drain(follower)
        assert reader.keys == []
    await drain(follower)
    assert sorted(reader.keys) == ["early", "late"]


async def test_a_second_follower_yields_while_the_lease_holds(pool: Pool, make_event: MakeEvent) -> None:
    first, second = Reader(), Reader()
    await write(pool, make_event, "a")
    holder = Follower(pool, "local", "reader", first.apply, SLOW)
    waiting = Follower(pool, "local", "reader", second.apply, SLOW)
    assert await holder.step() == 1
    await write(pool, make_event, "b")
    assert await waiting.step() is None
    assert await holder.step() == 1
    assert (first.keys, second.keys) == (["a", "b"], [])


async def test_a_holder_that_slept_past_its_lease_does_not_move_the_cursor(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    await write(pool, make_event, "a", "b")
    second = Reader()
    other = Follower(pool, "local", "reader", second.apply, SLOW)

    async def fall_asleep(events: Sequence[RecordedEvent]) -> None:
        await sql(database, "update followers set lease_until = now() - interval '1 s';")
        assert await other.step() == 2

    sleeper = Follower(pool, "local", "reader", fall_asleep, SLOW)
    assert await sleeper.step() is None
    assert await sleeper.step() is None
    assert second.keys == ["a", "b"]
    assert await sql(database, "select generation from followers;") == "2"


async def test_a_batch_that_takes_longer_than_the_lease_is_not_begun_by_another(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    await write(pool, make_event, "a", "b")
    settings = FollowerSettings(lease_seconds=2.0, deadline_seconds=SECONDS)
    second = Reader()
    other = Follower(pool, "local", "reader", second.apply, settings)

    async def take_long(events: Sequence[RecordedEvent]) -> None:
        taken_until = await sql(database, "select lease_until from followers;")
        while await sql(database, f"select clock_timestamp() < '{taken_until}';") == "t":
            continue
        assert await other.step() is None

    assert await Follower(pool, "local", "reader", take_long, settings).step() == 2
    assert second.keys == []


async def test_long_parts_of_payloads_are_not_read_for_a_follower(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as tx:
        await record(tx, make_event("a", payload={"error": "x" * 10_000, "step": "serve"}), {"items": ["les-1"]})
    reader = Reader()
    await Follower(pool, "local", "reader", reader.apply, SLOW).step()
    assert reader.events[0].payload == {"error": None, "step": "serve"}
    assert reader.events[0].result == {"items": ["les-1"]}


async def test_the_lag_of_a_follower_that_never_began_is_counted_up_to_a_bound(database: Database, pool: Pool) -> None:
    await sql(
        database,
        "insert into outbox select 'local', '100'::xid8, number from generate_series(1, 20000) number;",
    )
    assert (await Follower(pool, "local", "reader", Reader().apply, SLOW).lag()).events == follow.MOST_COUNTED


async def test_an_event_that_cannot_be_applied_is_parked_and_blocks_no_other(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    await write(pool, make_event, "a", "bad", "c")
    reader = Reader(poison="bad")
    await drain(Follower(pool, "local", "reader", reader.apply, SLOW))
    assert reader.keys == ["a", "c"]
    assert reader.tries == 1 + SLOW.tries
    parked = await sql(database, "select key, tries, error from dead_letters join journal using (tenant, position);")
    assert parked == f"bad|{SLOW.tries}|LookupError"


async def test_an_error_that_every_event_of_a_batch_meets_parks_none(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    await write(pool, make_event, "a", "b", "c")
    faulty = True

    async def apply(events: Sequence[RecordedEvent]) -> None:
        if faulty:
            raise AttributeError

    follower = Follower(pool, "local", "reader", apply, SLOW)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="fails with AttributeError"):
            await follower.step()
    assert (await follower.lag()).events == 3
    faulty = False
    assert await follower.step() == 3
    assert await sql(database, "select count(*) from dead_letters;") == "0"


async def test_what_is_parked_is_tried_again_and_forgotten_when_it_can_be_applied(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    await write(pool, make_event, "a", "bad")
    reader = Reader(poison="bad")
    follower = Follower(pool, "local", "reader", reader.apply, replace(SLOW, parked_seconds=0.0))
    assert await follower.step() == 2
    parked = "select tries from dead_letters;"
    assert await sql(database, parked) == str(SLOW.tries)
    assert await follower.step() == 0
    assert await sql(database, parked) == str(SLOW.tries + 1)
    reader.poison = ""
    assert await follower.step() == 0
    assert reader.keys == ["a", "bad"]
    assert await sql(database, parked) == ""
    assert (await follower.lag()).parked == 0


async def test_a_store_that_is_down_parks_nothing_and_the_events_come_again(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    await write(pool, make_event, "a")
    reader = Reader(poison="a", error=StoreUnavailable("down"))
    follower = Follower(pool, "local", "reader", reader.apply, SLOW)
    with pytest.raises(StoreUnavailable):
        await follower.step()
    reader.poison = ""
    assert await follower.step() == 1
    assert reader.keys == ["a"]
    assert await sql(database, "select count(*) from dead_letters;") == "0"


async def test_rows_stay_until_every_follower_has_passed_them(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    quick, slow = Reader(), Reader()
    followers = [Follower(pool, "local", name, reader.apply, SLOW) for name, reader in (("q", quick), ("s", slow))]
    for follower in followers:
        await follower.step()
    await write(pool, make_event, "a", "b")
    await drain(followers[0])
    assert await sql(database, "select count(*) from outbox;") == "2"
    await drain(followers[1])
    assert await sql(database, "select count(*) from outbox;") == "0"
    assert quick.keys == slow.keys == ["a", "b"]


@pytest.mark.parametrize("query", ["read_batch", "trim_outbox"])
async def test_a_long_outbox_is_read_and_trimmed_through_its_key(query: str, database: Database, pool: Pool) -> None:
    await sql(
        database,
        "insert into outbox select 'local', (100 + number)::text::xid8, number from generate_series(1, 20000) number;"
        "analyze outbox;",
    )
    async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as tx:
        plan = await tx.rows("explain " + follow.SQL[query], cursor_tx="150", cursor_position=50, limit=10)
    text = "\n".join(row["QUERY PLAN"] for row in plan)
    assert "outbox_pkey" in text
    assert 'ROW(tx, "position")' in text.partition("Index Cond:")[2].partition("\n")[0]


async def test_a_follower_sees_its_own_tenant_only(pool: Pool, make_event: MakeEvent) -> None:
    await write(pool, make_event, "mine")
    await write(pool, make_event, "theirs", tenant="other")
    reader = Reader()
    await drain(Follower(pool, "local", "reader", reader.apply, SLOW))
    assert reader.keys == ["mine"]


async def test_the_lag_counts_what_is_not_passed(pool: Pool, make_event: MakeEvent) -> None:
    follower = Follower(pool, "local", "reader", Reader().apply, SLOW)
    assert (await follower.lag()).events == 0
    await write(pool, make_event, "a", "b")
    lag = await follower.lag()
    assert lag.events == 2
    assert lag.seconds > 0
    await drain(follower)
    assert (await follower.lag()).events == 0


async def test_a_new_event_wakes_the_follower_of_another_process(
    pool: Pool, make_settings: MakeSettings, make_event: MakeEvent
) -> None:
    stop, seen = asyncio.Event(), asyncio.Event()

    async def apply(events: Sequence[RecordedEvent]) -> None:
        seen.set()

    follower = Follower(pool, "local", "reader", apply, SLOW)
    listening = asyncio.Event()

    def woken() -> None:
        listening.set()
        follower.wake()

    tasks = [
        asyncio.create_task(follower.run(stop)),
        asyncio.create_task(listen(make_settings().postgres_dsn, woken, stop)),
    ]
    async with asyncio.timeout(30):
        await listening.wait()
        await write(pool, make_event, "a")
        await seen.wait()
        stop.set()
        await asyncio.gather(*tasks)


async def test_a_follower_that_stops_gives_its_lease_back(pool: Pool, make_event: MakeEvent) -> None:
    stop, seen = asyncio.Event(), asyncio.Event()

    async def apply(events: Sequence[RecordedEvent]) -> None:
        seen.set()

    await write(pool, make_event, "a")
    async with asyncio.timeout(30):
        running = asyncio.create_task(Follower(pool, "local", "reader", apply, SLOW).run(stop))
        await seen.wait()
        stop.set()
        await running
    assert await Follower(pool, "local", "reader", apply, SLOW).step() == 0


async def test_only_the_events_that_failed_are_handed_on_again_and_then_parked(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    await write(pool, make_event, "a", "bad", "c")
    handed: list[list[str]] = []

    async def apply(events: Sequence[RecordedEvent]) -> dict[int, str]:
        handed.append([event.key for event in events])
        return {event.position: "mapper_parsing_exception" for event in events if event.key == "bad"}

    follower = Follower(pool, "local", "reader", apply, SLOW)
    assert await follower.step() == 3
    assert handed == [["a", "bad", "c"], *[["bad"]] * SLOW.tries]
    parked = await sql(database, "select key, tries, error from dead_letters join journal using (tenant, position);")
    assert parked == f"bad|{SLOW.tries}|mapper_parsing_exception"
    assert (await follower.lag()).parked == 1


async def test_an_event_that_is_applied_at_the_second_try_is_not_parked(pool: Pool, make_event: MakeEvent) -> None:
    await write(pool, make_event, "a", "b")
    tried: list[int] = []

    async def apply(events: Sequence[RecordedEvent]) -> dict[int, str]:
        tried.append(len(events))
        return {events[0].position: "Busy"} if len(tried) == 1 else {}

    follower = Follower(pool, "local", "reader", apply, SLOW)
    await drain(follower)
    assert tried == [2, 1]
    assert (await follower.lag()).parked == 0


async def test_a_follower_prepares_once_for_each_lease_it_takes(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    order: list[str] = []

    async def prepare() -> None:
        order.append("prepare")

    async def apply(events: Sequence[RecordedEvent]) -> None:
        order.extend(event.key for event in events)

    follower = Follower(pool, "local", "reader", apply, SLOW, prepare=prepare)
    assert await follower.step() == 0
    await write(pool, make_event, "a")
    await follower.step()
    await sql(database, "update followers set generation = generation + 1, holder = 'other', lease_until = now();")
    await write(pool, make_event, "b")
    await follower.step()
    assert order == ["prepare", "a", "prepare", "b"]


async def test_the_pauses_between_tries_double_up_to_a_bound(pool: Pool) -> None:
    follower = Follower(pool, "local", "reader", Reader().apply, FollowerSettings(longest_pause_seconds=10.0))
    down = StoreUnavailable("down", retry_after_seconds=2.0)
    pauses = [follower._pause(down) for _ in range(5)]
    for pause, longest in zip(pauses, (2, 4, 8, 10, 10), strict=True):
        assert 0.75 * longest <= pause <= longest


async def test_a_batch_that_takes_its_time_at_the_end_is_left_and_comes_again(
    pool: Pool, make_event: MakeEvent
) -> None:
    stop, begun = asyncio.Event(), asyncio.Event()

    async def hang(events: Sequence[RecordedEvent]) -> None:
        begun.set()
        await asyncio.Event().wait()

    await write(pool, make_event, "a")
    async with asyncio.timeout(30):
        quick = replace(SLOW, grace_seconds=0.1)
        running = asyncio.create_task(Follower(pool, "local", "reader", hang, quick).run(stop))
        await begun.wait()
        stop.set()
        await running
    reader = Reader()
    assert await Follower(pool, "local", "reader", reader.apply, SLOW).step() == 1
    assert reader.keys == ["a"]
