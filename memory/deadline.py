"""Ask one tier within a deadline: it answers, is late or is down, and never fails the call."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import structlog

from memory.errors import PoimenError
from poimen.contracts.memory_calls import TierReport
from poimen.contracts.vocabulary import Tier, TierStatus

T = TypeVar("T")
# A store that gives up by itself at the same deadline was late, not down.
_NEARLY_SECONDS: Final = 0.01

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a tier did within the deadline; `value` is None unless some of it answered."""

    report: TierReport
    value: T | None = None


async def within(
    tier: Tier,
    ask: Callable[[float], Awaitable[T]],
    count: Callable[[T], int],
    ends_at: float,
    *,
    status: Callable[[T], TierStatus] = lambda _: "answered",
) -> Answer[T]:
    """Ask a tier; `ask` gets the seconds it has, `ends_at` is an instant of the monotonic clock.

    `status` says of a value whether all of the tier gave it.
    """
    began = time.monotonic()

    def report(status: TierStatus, found: int = 0) -> TierReport:
        elapsed = round((time.monotonic() - began) * 1000)
        return TierReport(tier=tier, status=status, found=found, elapsed_ms=elapsed)

    left = ends_at - began
    if left <= 0:
        return Answer(report("late"))
    try:
        async with asyncio.timeout(left):
            value = await ask(left)
            answered = report(status(value), count(value))
    except TimeoutError:
        return Answer(report("late"))
    except (PoimenError, OSError) as error:
        late = time.monotonic() >= ends_at - _NEARLY_SECONDS
        _log.warning("A tier did not answer.", tier=tier, error=type(error).__name__)
        return Answer(report("late" if late else "down"))
    except Exception:
        # One tier's defect takes nothing from what the others know. The text of the error may hold anything.
        _log.exception("A tier failed unexpectedly.", tier=tier)
        return Answer(report("down"))
    return Answer(answered, value)


def skipped(tier: Tier) -> Answer[T]:
    """Give the answer of a tier that was not asked."""
    return Answer(TierReport(tier=tier, status="skipped"))
