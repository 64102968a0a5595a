"""The life of a worker process: check, poll, and on SIGTERM drain and end."""

import asyncio
import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Final

import structlog
from temporalio.client import Client
from temporalio.worker import Worker

from executors.settings import ExecutorSettings
from memory.errors import FinalError, SchemaMismatch, StoreUnavailable
from memory.masking import Masker
from memory.postgres import Pool, check_database
from memory.rebuild import check_embedder
from memory.settings import MemorySettings
from memory.stores import Stores, build_stores
from worker import logs
from worker.bootstrap import build_workers
from worker.exits import FAILED, OK, SCHEMA, TemporalDown
from worker.projection import follow_journal, warm_up
from worker.reconcile import Reconciler
from worker.resign import resign_signatures
from worker.search_attributes import ensure_search_attributes
from worker.settings import Settings
from worker.temporal_client import connect

# Past the grace everything has been cancelled; what has not ended some seconds later will not.
_PAST_GRACE_SECONDS: Final = 5.0
_BETWEEN_CHECKS_SECONDS: Final = 1.0
_BETWEEN_TRIES_SECONDS: Final = 0.5
_CHECK_SECONDS: Final = 3.0
_BEFORE_RESTART_SECONDS: Final = 5.0

_log = structlog.get_logger(__name__)


class Stop(asyncio.Event):
    """Set when the process is to end; `code` says how."""

    def __init__(self) -> None:
        super().__init__()
        self.code = OK

    def with_code(self, code: int) -> None:
        """End, with another exit code than 0."""
        self.code = code
        self.set()

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """Take SIGTERM and SIGINT for the length of a block: the first drains, the second ends at once."""
        loop = asyncio.get_running_loop()
        both = (signal.SIGTERM, signal.SIGINT)
        for number in both:
            loop.add_signal_handler(number, self._signalled)
        try:
            yield
        finally:
            for number in both:
                loop.remove_signal_handler(number)

    def _signalled(self) -> None:
        if self.is_set():
            _end_at_once()
        _log.info("The worker was told to end; it finishes what it can.")
        self.set()


Task = Callable[[Stop], Awaitable[None]]


async def run_worker(settings: Settings) -> int:
    """Run a worker of the settings' role until SIGTERM or SIGINT; return the exit code.

    A Postgres that is down does not stop it: memory answers "down" until the database is there and checked.
    Raises SettingsError, TemporalDown, and SchemaMismatch when the database may not be used.
    """
    memory = settings.memory() if settings.role != "executor" else None
    executor = settings.executor() if settings.role != "memory" else None
    logs.configure(settings.values["log"], settings.values["log_level"], _mask(memory, executor))
    _log.info("The worker starts.", **settings.shown())
    if memory and settings.by_words_because:
        _log.info("Knowledge is searched by words alone.", because=settings.by_words_because)
    stop = Stop()
    with stop.on_signals():
        client = await _connected(settings, stop)
        if client is None:
            return stop.code
        made = await ensure_search_attributes(client)
        if made:
            _log.info("Search attributes were added to the dev server.", names=made)
        stores = build_stores(memory) if memory else None
        async with _usable(stores, stop) as up:
            workers = build_workers(settings, client, stores, executor)
            background = _background(settings, client, stores, up)
            await _serve(workers, background, stop, settings.values["grace_seconds"])
    _log.info("The worker ended.", code=stop.code)
    return stop.code


async def _connected(settings: Settings, stop: Stop) -> Client | None:
    """Connect to Temporal, trying again for a while; None when told to end meanwhile."""
    give_up_at = time.monotonic() + settings.values["connect_seconds"]
    while not stop.is_set():
        try:
            return await connect(settings)
        except TemporalDown:
            if time.monotonic() >= give_up_at:
                raise
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _BETWEEN_TRIES_SECONDS)
    return None


@contextlib.asynccontextmanager
async def _usable(stores: Stores | None, stop: Stop) -> AsyncIterator[asyncio.Event]:
    """Open the stores for the length of a block: at once when the database may be used, later when it is down.

    Yields an event that is set when they are open.
    """
    up = asyncio.Event()
    if stores is None:
        yield up
        return
    checking = None
    try:
        await _open(stores, up)
    except StoreUnavailable as error:
        _log.warning("Memory is down; runs go on without it, and their records are kept.", error=str(error))
        checking = asyncio.create_task(_open_later(stores, up, stop, str(error)))
    try:
        yield up
    finally:
        if checking is not None:
            checking.cancel()
            await asyncio.gather(checking, return_exceptions=True)
        await stores.close()


async def _open(stores: Stores, up: asyncio.Event) -> None:
    # Until the check has passed the pool stays closed, so that no role is used that could see every tenant.
    await _check(stores.settings)
    await stores.open()
    try:
        await check_embedder(stores, deadline_seconds=_CHECK_SECONDS)
    except StoreUnavailable as error:
        # Searches by words and the other tiers work without it; whoever fills it checks again.
        _log.warning("The index is down.", index=stores.index.name, error=str(error))
    except BaseException:
        await stores.close()
        raise
    up.set()


async def _open_later(stores: Stores, up: asyncio.Event, stop: Stop, said: str) -> None:
    while not up.is_set():
        await asyncio.sleep(_BETWEEN_CHECKS_SECONDS)
        try:
            await _open(stores, up)
        except StoreUnavailable as error:
            if str(error) != said:
                said = str(error)
                _log.warning("Memory is still down.", error=said)
        except FinalError as error:
            _log.error("The database may not be used.", error=str(error))
            stop.with_code(SCHEMA if isinstance(error, SchemaMismatch) else FAILED)
            return
    _log.info("Memory is up.")


async def _check(settings: MemorySettings) -> None:
    pool = Pool(dataclasses.replace(settings, pool_min_size=1, pool_max_size=1, connection_wait_seconds=_CHECK_SECONDS))
    await pool.open()
    try:
        await check_database(pool, deadline_seconds=_CHECK_SECONDS)
    finally:
        await pool.close()


def _background(settings: Settings, client: Client, stores: Stores | None, up: asyncio.Event) -> dict[str, Task]:
    if stores is None:
        return {}

    async def project(stop: Stop) -> None:
        await _either(up, stop)
        await _checked(stores, stop)
        if not stop.is_set():
            await warm_up(stores)
            await follow_journal(stores, stop)

    async def sign_again(stop: Stop) -> None:
        await _either(up, stop)
        if not stop.is_set():
            await resign_signatures(stores, stop)

    reconciler = Reconciler(client, settings.task_queue, settings.values["reconcile_seconds"])
    return {"projection": project, "resign": sign_again, "reconciler": reconciler.run}


async def _checked(stores: Stores, stop: Stop) -> None:
    """Return when the index may be filled; end the worker when it was made by another embedder."""
    while not stop.is_set():
        try:
            await check_embedder(stores)
        except StoreUnavailable as error:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), error.retry_after_seconds)
        except SchemaMismatch as error:
            _log.error("The index may not be used.", error=str(error))
            stop.with_code(SCHEMA)
        else:
            return


async def _either(*events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()


async def _serve(workers: Sequence[Worker], background: dict[str, Task], stop: Stop, grace_seconds: float) -> None:
    """Poll until told to stop, then drain. Past the deadline the process ends where it stands."""
    running = [asyncio.create_task(worker.run()) for worker in workers]
    beside = [asyncio.create_task(_kept(name, task, stop)) for name, task in background.items()]
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([stopping, *running], return_when=asyncio.FIRST_COMPLETED)
    if not stop.is_set():
        stop.with_code(FAILED)  # a worker ends by itself only on an error that it cannot survive
    try:
        async with asyncio.timeout(grace_seconds + _PAST_GRACE_SECONDS):
            await asyncio.gather(*(worker.shutdown() for worker in workers))
            for ended in await asyncio.gather(*running, *beside, return_exceptions=True):
                if isinstance(ended, BaseException):
                    _log.error("A part of the worker failed.", exc_info=ended)
    except TimeoutError:
        _log.error("The worker did not end in time.", grace_seconds=grace_seconds)
        _end_at_once()


async def _kept(name: str, task: Task, stop: Stop) -> None:
    """Run a background task until the process ends; one that fails is started again."""
    while not stop.is_set():
        try:
            await task(stop)
        except Exception:
            _log.exception("A background task failed; it is started again.", task=name)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _BEFORE_RESTART_SECONDS)


def _mask(memory: MemorySettings | None, executor: ExecutorSettings | None) -> logs.Mask:
    known = [*memory.secrets] if memory else []
    if executor:
        keys = [endpoint.api_key for endpoint in executor.models.values() if endpoint.api_key]
        known += [*keys, *executor.variables.values()]
    # Without a key of its own an executor's marks differ from start to start, and hide as much.
    masker = Masker(memory.masking_key if memory else os.urandom(16), known)
    return lambda text: masker.mask(text).text


def _end_at_once() -> None:
    logs.flush()
    os._exit(FAILED)
