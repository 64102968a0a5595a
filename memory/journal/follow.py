"""Follow the journal: every committed event at least once, in an order that loses none.

A follower holds a lease, hands on a batch, and then moves its cursor under the generation of the lease. A crash in
between, or a holder that woke up too late, hands some events on twice; so what it hands them to is idempotent.
"""

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import structlog

from memory.errors import PoimenError, StoreUnavailable
from memory.journal.event import RecordedEvent
from memory.journal.read import events_at
from memory.postgres import Pool, Transaction, load_queries, tenant_transaction

SQL = load_queries(__package__, "follow.sql")
Apply = Callable[[Sequence[RecordedEvent]], Awaitable[Mapping[int, str] | None]]
"""Takes a batch; returns the positions that could not be applied, each with the class of its error."""
Prepare = Callable[[], Awaitable[None]]
MOST_COUNTED: Final = 10_000
"""Events behind that are counted one by one; a follower that is further behind is told to be that far."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerSettings:
    """How one follower works; times in seconds."""

    batch: int = 200
    # An event that fails this often is parked in dead_letters.
    tries: int = 3
    # After which a parked one is tried again, once at a time, when nothing else waits.
    parked_seconds: float = 300.0
    lease_seconds: float = 15.0
    # What was prepared may get lost while nothing happens.
    prepare_seconds: float = 30.0
    # Behind the wake-up, which may get lost.
    poll_seconds: float = 1.0
    # The longest pause after failures; it doubles from what the error asks for.
    longest_pause_seconds: float = 10.0
    deadline_seconds: float = 5.0
    # For the batch that is under way at the end.
    grace_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Lag:
    """Events a follower has not passed, counted up to MOST_COUNTED, the age of the next in seconds, and the parked."""

    events: int
    seconds: float
    parked: int = 0


@dataclass(frozen=True, slots=True)
class _Batch:
    generation: int
    # (transaction id as text, position) of the last row; None when there is nothing new.
    last: tuple[str, int] | None
    events: list[RecordedEvent]


@dataclass(frozen=True, slots=True)
class _Failure:
    """The class of an error, which `apply` raised, or told of one event."""

    error: str
    raised: bool = False


class Follower:
    """Hands the events of one tenant to `apply`, in batches, one holder at a time.

    `apply` gets a batch in order, with the long parts of payloads left out, and may get events again. What it says
    has failed, or all of a batch when it raises, is handed to it one by one, each some times, and what still fails is
    parked; StoreUnavailable is waited out and parks nothing, and so is whatever is raised for every event of a batch,
    since then it is not the events that are at fault. `prepare` runs first, whenever the lease is new, and
    again now and then.
    """

    def __init__(
        self,
        pool: Pool,
        tenant: str,
        name: str,
        apply: Apply,
        settings: FollowerSettings | None = None,
        *,
        prepare: Prepare | None = None,
    ) -> None:
        self.tenant = tenant
        self.name = name
        self._pool = pool
        self._apply = apply
        self._prepare = prepare
        # The generation of the lease it was done for, and the instant of the monotonic clock.
        self._prepared: tuple[int, float] | None = None
        self._failures = 0
        self._parked_due = float("-inf")
        self._settings = settings or FollowerSettings()
        self._holder = uuid.uuid4().hex
        self._lease = timedelta(seconds=self._settings.lease_seconds)
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Look for new events now."""
        self._woken.set()

    async def step(self) -> int | None:
        """Hand on the next batch and return its size; None while another holder has the lease.

        0 says that none can be read now, not that none waits: one of a transaction that began after another, which
        still runs, is read when that has ended. `lag` counts all.
        """
        async with self._transaction() as tx:
            batch = await self._read(tx)
        if batch is None:
            return None
        if self._prepare is not None and self._to_prepare(batch.generation):
            async with self._renewed(batch.generation):
                await self._prepare()
            self._prepared = (batch.generation, time.monotonic())
        if batch.last is None:
            await self._try_parked(batch.generation)
            return 0
        async with self._renewed(batch.generation):
            failed = await self._hand_on(batch.events)
        async with self._transaction() as tx:
            return len(batch.events) if await self._move(tx, batch, failed) else None

    async def run(self, stop: asyncio.Event) -> None:
        """Follow until `stop` is set, then give the lease back; outages are waited out.

        A batch that takes its time at the end is left, and comes again.
        """
        ending = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                self._woken.clear()
                step = asyncio.create_task(self._step_or_pause())
                await asyncio.wait({step, ending}, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.wait({step}, timeout=self._settings.grace_seconds)
                if not step.done():
                    step.cancel()
                    await asyncio.wait({step})
                elif (pause := step.result()) is None:
                    await self._idle(ending)
                elif pause:
                    await asyncio.wait({ending}, timeout=pause)
        finally:
            ending.cancel()
            with contextlib.suppress(PoimenError):
                await self._release()

    async def lag(self) -> Lag:
        """Return how far this follower is behind."""
        async with self._transaction() as tx:
            cursor = await cursor_of(tx, self.name)
            row = await tx.row(SQL["lag"], name=self.name, limit=MOST_COUNTED, **cursor)
        assert row is not None
        return Lag(row["rows"], row["seconds"], row["parked"])

    def _to_prepare(self, generation: int) -> bool:
        if self._prepared is None or self._prepared[0] != generation:
            return True
        return time.monotonic() - self._prepared[1] >= self._settings.prepare_seconds

    async def _read(self, tx: Transaction) -> _Batch | None:
        lease = await tx.row(SQL["take_lease"], name=self.name, holder=self._holder, lease=self._lease)
        if lease is None:
            return None
        rows = await tx.rows(
            SQL["read_batch"],
            cursor_tx=str(lease["cursor_tx"]),
            cursor_position=lease["cursor_position"],
            limit=self._settings.batch,
        )
        if not rows:
            return _Batch(lease["generation"], None, [])
        events = await events_at(tx, [row["position"] for row in rows], bodies=False)
        return _Batch(lease["generation"], (str(rows[-1]["tx"]), rows[-1]["position"]), events)

    @contextlib.asynccontextmanager
    async def _renewed(self, generation: int) -> AsyncIterator[None]:
        """Keep the lease while a batch takes its time, so that no other worker begins the same batch."""
        renewing = asyncio.create_task(self._renew(generation))
        try:
            yield
        finally:
            renewing.cancel()
            await asyncio.wait({renewing})

    async def _renew(self, generation: int) -> None:
        held = 1
        while held:
            await asyncio.sleep(self._settings.lease_seconds / 3)
            # A failed renewal is tried again; if the lease is lost meanwhile, the cursor does not move.
            with contextlib.suppress(PoimenError):
                async with self._transaction() as tx:
                    held = await tx.run(SQL["renew_lease"], name=self.name, generation=generation, lease=self._lease)

    async def _hand_on(self, events: Sequence[RecordedEvent]) -> dict[int, str]:
        """Apply the events, and return the positions that could not be applied, with the class of their error."""
        failures: dict[int, _Failure]
        try:
            failures = {position: _Failure(error) for position, error in (await self._apply(events) or {}).items()}
        except StoreUnavailable:
            raise
        except Exception as error:
            _log.warning("A batch of events failed; its events follow one by one.", follower=self.name)
            failures = {event.position: _Failure(type(error).__name__, raised=True) for event in events}
        for _ in range(self._settings.tries):
            left = [event for event in events if event.position in failures]
            failures = {event.position: failure for event in left if (failure := await self._hand_on_one(event))}
            if len(failures) == len(events) and (common := _common_error(failures.values())):
                raise StoreUnavailable(f"Every event of a batch fails with {common}, so that none of them is parked.")
        for position, failure in failures.items():
            _log.error("An event is parked.", follower=self.name, position=position, error=failure.error)
        return {position: failure.error for position, failure in failures.items()}

    async def _hand_on_one(self, event: RecordedEvent) -> _Failure | None:
        try:
            error = (await self._apply([event]) or {}).get(event.position)
        except StoreUnavailable:
            raise
        except Exception as raised:
            return _Failure(type(raised).__name__, raised=True)
        return None if error is None else _Failure(error)

    async def _try_parked(self, generation: int) -> None:
        """Hand on once more what was parked long ago; what was mended meanwhile is parked no longer."""
        if time.monotonic() < self._parked_due:
            return
        self._parked_due = time.monotonic() + self._settings.parked_seconds / 4
        ago = timedelta(seconds=self._settings.parked_seconds)
        async with self._transaction() as tx:
            rows = await tx.rows(SQL["parked"], name=self.name, ago=ago, limit=self._settings.batch)
            parked = [row["position"] for row in rows]
            events = await events_at(tx, parked, bodies=False) if parked else []
        if not parked:
            return
        async with self._renewed(generation):
            failed = {event.position: failure for event in events if (failure := await self._hand_on_one(event))}
        async with self._transaction() as tx:
            await tx.run(SQL["unpark"], name=self.name, positions=[each for each in parked if each not in failed])
            for position, failure in failed.items():
                await tx.run(SQL["park"], name=self.name, position=position, tries=1, error=failure.error)

    async def _move(self, tx: Transaction, batch: _Batch, failed: dict[int, str]) -> bool:
        assert batch.last is not None
        moved = await tx.run(
            SQL["move_cursor"],
            name=self.name,
            generation=batch.generation,
            cursor_tx=batch.last[0],
            cursor_position=batch.last[1],
            lease=self._lease,
        )
        if not moved:
            return False
        for position, error in failed.items():
            await tx.run(SQL["park"], name=self.name, position=position, tries=self._settings.tries, error=error)
        slowest = await tx.row(SQL["slowest"])
        assert slowest is not None
        await tx.run(
            SQL["trim_outbox"], cursor_tx=str(slowest["cursor_tx"]), cursor_position=slowest["cursor_position"]
        )
        return True

    async def _step_or_pause(self) -> float | None:
        """Take a step; return how long to pause after a failure, 0 to go on, None when there was nothing to do."""
        try:
            stepped = await self.step()
        except PoimenError as error:
            _log.warning("Following the journal failed; it is tried again.", follower=self.name, error=str(error))
            return self._pause(error)
        except Exception:
            # A fault of this program: following the rest goes on, and the log has the place.
            _log.exception("Following the journal failed; it is tried again.", follower=self.name)
            return self._pause(None)
        self._failures = 0
        return 0.0 if stepped else None

    def _pause(self, error: PoimenError | None) -> float:
        self._failures += 1
        first = error.retry_after_seconds if isinstance(error, StoreUnavailable) else 1.0
        longest = max(self._settings.longest_pause_seconds, first)
        # Jitter, so that workers which lost one store together do not come back together.
        return min(first * 2.0 ** min(self._failures - 1, 10), longest) * random.uniform(0.75, 1.0)  # noqa: S311  because it is no secret

    async def _idle(self, ending: asyncio.Task[bool]) -> None:
        waking = asyncio.create_task(self._woken.wait())
        await asyncio.wait({waking, ending}, timeout=self._settings.poll_seconds, return_when=asyncio.FIRST_COMPLETED)
        waking.cancel()

    async def _release(self) -> None:
        async with self._transaction() as tx:
            await tx.run(SQL["give_lease_back"], name=self.name, holder=self._holder)

    def _transaction(self) -> contextlib.AbstractAsyncContextManager[Transaction]:
        return tenant_transaction(self._pool, self.tenant, deadline_seconds=self._settings.deadline_seconds)


def _common_error(failures: Iterable[_Failure]) -> str | None:
    """Give the class of the error that was raised for all, if it is one."""
    errors = {failure.error if failure.raised else None for failure in failures}
    return errors.pop() if len(errors) == 1 else None


async def cursor_of(tx: Transaction, name: str) -> dict[str, Any]:
    """Return how far a follower has come, as parameters: its cursor goes into a statement as values.

    Only then is the outbox read from that place on.
    """
    cursor = await tx.row(SQL["cursor"], name=name)
    return {
        "cursor_tx": str(cursor["cursor_tx"]) if cursor else "0",
        "cursor_position": cursor["cursor_position"] if cursor else 0,
    }


async def first_not_passed(tx: Transaction, name: str) -> int | None:
    """Return the lowest position that a follower has still to pass, None when there is none."""
    row = await tx.row(SQL["first_not_passed"], **await cursor_of(tx, name))
    assert row is not None
    position: int | None = row["position"]
    return position
