"""A server that is gone must cost a call its deadline and no more; generous bounds, for the machine may be busy."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from memory.errors import StoreUnavailable
from memory.journal import record
from memory.postgres import Pool, check_database, tenant_transaction
from tests.fixtures_postgres import Database
from tests.journal.conftest import MakeEvent, MakeSettings
from tests.tcp_proxy import TcpProxy

DEADLINE = 1.2
# The driver alone needs ten seconds more than it was given.
AT_MOST = DEADLINE + 0.6
# A call that fails at once takes this part of its deadline at most.
AT_ONCE = 4
# An idle connection is checked before its next use once it has been idle for a second.
UNTIL_CHECKED = 1.1
SLEEPING = """select count(*) from pg_stat_activity
where datname = current_database() and state = 'active' and query like 'select pg_sleep(30%';"""


@pytest_asyncio.fixture(loop_scope="session")
async def proxy(database: Database, tcp_proxy: Callable[[str, int], Awaitable[TcpProxy]]) -> TcpProxy:
    return await tcp_proxy(database.server.host, database.server.port)


@pytest_asyncio.fixture(loop_scope="session")
async def far_pool(database: Database, proxy: TcpProxy, make_settings: MakeSettings) -> AsyncIterator[Pool]:
    """A warm pool whose server can be made to disappear."""
    pool = Pool(make_settings(postgres_dsn=database.app_dsn_through(proxy)))
    await pool.open()
    await check_database(pool)
    yield pool
    await proxy.pass_on()
    await pool.close()


async def answer(pool: Pool) -> int:
    async with tenant_transaction(pool, "local", deadline_seconds=DEADLINE) as tx:
        row = await tx.row("select 1 as one")
        assert row is not None
        return int(row["one"])


async def fails_in(call: Awaitable[object]) -> float:
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await call
    return time.monotonic() - begun


async def until_it_answers(pool: Pool) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                await answer(pool)
            except StoreUnavailable:
                continue
            return


async def test_a_server_that_refuses_fails_every_call_at_once(proxy: TcpProxy, far_pool: Pool) -> None:
    await proxy.refuse()
    took = [await fails_in(answer(far_pool)) for _ in range(5)]
    took += await asyncio.gather(*(fails_in(answer(far_pool)) for _ in range(20)))
    assert max(took) < DEADLINE / AT_ONCE, took


async def test_a_server_that_is_back_serves_the_next_calls(proxy: TcpProxy, far_pool: Pool) -> None:
    await proxy.refuse()
    await fails_in(answer(far_pool))
    # Long enough for every backoff there is to have grown.
    await asyncio.sleep(DEADLINE)
    await proxy.pass_on()
    begun = time.monotonic()
    await until_it_answers(far_pool)
    assert time.monotonic() - begun < DEADLINE / 2
    for _ in range(5):
        await answer(far_pool)


async def test_a_connection_that_was_lost_is_replaced_without_a_failure(proxy: TcpProxy, far_pool: Pool) -> None:
    await asyncio.gather(*(answer(far_pool) for _ in range(2)))
    await proxy.cut()
    await asyncio.sleep(UNTIL_CHECKED)
    await answer(far_pool)


async def test_a_caller_that_is_cancelled_while_its_connection_is_checked_gives_it_back(
    database: Database, proxy: TcpProxy, make_settings: MakeSettings
) -> None:
    settings = make_settings(postgres_dsn=database.app_dsn_through(proxy), pool_min_size=1, pool_max_size=1)
    pool = Pool(settings)
    await pool.open()
    await answer(pool)
    await asyncio.sleep(UNTIL_CHECKED)
    proxy.black_hole()
    waiting = asyncio.create_task(answer(pool))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await proxy.pass_on()
    await until_it_answers(pool)
    await pool.close()


async def test_a_server_behind_a_black_hole_costs_the_first_calls_their_deadline_and_the_next_nothing(
    proxy: TcpProxy, far_pool: Pool
) -> None:
    proxy.black_hole()
    took = await asyncio.gather(*(fails_in(answer(far_pool)) for _ in range(6)))
    assert max(took) < AT_MOST, took
    next_ones = [await fails_in(answer(far_pool)) for _ in range(20)]
    next_ones += await asyncio.gather(*(fails_in(answer(far_pool)) for _ in range(20)))
    assert max(next_ones) < DEADLINE / AT_ONCE, next_ones
    await proxy.pass_on()
    await until_it_answers(far_pool)


async def test_callers_that_fail_at_once_open_no_connections(proxy: TcpProxy, far_pool: Pool) -> None:
    proxy.black_hole()
    await fails_in(answer(far_pool))
    await fails_in(answer(far_pool))
    before = proxy.connections
    for _ in range(200):
        await fails_in(answer(far_pool))
    # One that knocks, and what the pool had begun before.
    assert proxy.connections - before <= 3


async def test_a_statement_that_is_slow_makes_no_other_caller_fail(far_pool: Pool) -> None:
    async def sleep() -> None:
        async with tenant_transaction(far_pool, "local", deadline_seconds=0.5) as tx:
            await tx.row("select pg_sleep(30)")

    slow = [asyncio.create_task(fails_in(sleep())) for _ in range(2)]
    while not all(task.done() for task in slow):
        await answer(far_pool)
    await answer(far_pool)


async def test_a_caller_whose_deadline_is_cut_from_outside_also_finds_the_black_hole(
    proxy: TcpProxy, far_pool: Pool
) -> None:
    proxy.black_hole()
    with pytest.raises((TimeoutError, StoreUnavailable)):
        async with asyncio.timeout(DEADLINE):
            await answer(far_pool)
    await asyncio.sleep(0)
    assert await fails_in(answer(far_pool)) < DEADLINE / AT_ONCE


async def test_a_black_hole_in_the_middle_of_a_transaction_ends_it_within_the_deadline(
    database: Database, proxy: TcpProxy, far_pool: Pool, make_event: MakeEvent
) -> None:
    async def write() -> None:
        async with tenant_transaction(far_pool, "local", deadline_seconds=DEADLINE) as tx:
            await record(tx, make_event())
            proxy.black_hole()

    assert await fails_in(write()) < AT_MOST
    await proxy.pass_on()
    await until_it_answers(far_pool)


async def test_a_commit_whose_answer_is_lost_is_found_again_under_its_key(
    database: Database, proxy: TcpProxy, far_pool: Pool, make_event: MakeEvent
) -> None:
    async def write(*, lost: bool) -> None:
        async with tenant_transaction(far_pool, "local", deadline_seconds=DEADLINE) as tx:
            await record(tx, make_event())
            if lost:
                # COMMIT passes after half a second, and its answer is held back.
                proxy.delay(0.5)
                asyncio.get_running_loop().call_later(0.7, proxy.black_hole)

    await fails_in(write(lost=True))
    await proxy.cut()
    await proxy.pass_on()
    await until_it_answers(far_pool)
    await write(lost=False)
    assert (await database.run_sql("select count(*) from journal;")).strip() == "1"


async def test_a_caller_that_is_cancelled_is_released_at_once(
    database: Database, proxy: TcpProxy, far_pool: Pool
) -> None:
    async def wait() -> None:
        async with tenant_transaction(far_pool, "local", deadline_seconds=30) as tx:
            await tx.row("select pg_sleep(30)")

    waiting = asyncio.create_task(wait())
    async with asyncio.timeout(10):
        while (await database.run_sql(SLEEPING)).strip() == "0":
            continue
    proxy.black_hole()
    begun = time.monotonic()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert time.monotonic() - begun < 1.0


async def test_a_statement_that_takes_too_long_is_ended_by_the_server_too(database: Database, pool: Pool) -> None:
    async def sleep() -> None:
        async with tenant_transaction(pool, "local", deadline_seconds=0.3) as tx:
            await tx.row("select pg_sleep(30)")

    assert await fails_in(sleep()) < AT_MOST
    async with asyncio.timeout(10):
        while (await database.run_sql(SLEEPING)).strip() != "0":
            continue


async def test_more_callers_than_the_queue_holds_fail_at_once(make_settings: MakeSettings) -> None:
    small = Pool(make_settings(pool_min_size=1, pool_max_size=1, pool_max_waiting=2))
    await small.open()
    async with tenant_transaction(small, "local", deadline_seconds=5):
        ends = await asyncio.gather(*(answer(small) for _ in range(10)), return_exceptions=True)
    assert all(isinstance(end, StoreUnavailable) for end in ends)
    await until_it_answers(small)
    await small.close()


async def test_a_pool_opens_while_the_server_is_down_and_serves_when_it_is_up(
    database: Database, proxy: TcpProxy, make_settings: MakeSettings
) -> None:
    await proxy.refuse()
    pool = Pool(make_settings(postgres_dsn=database.app_dsn_through(proxy)))
    await pool.open()
    assert await fails_in(answer(pool)) < AT_MOST
    await proxy.pass_on()
    await until_it_answers(pool)
    await pool.close()
