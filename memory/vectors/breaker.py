"""A breaker: after some losses in a row a store is left alone for a while, so that nobody waits for it in vain."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

LOSSES: Final = 5
FIRST_PAUSE_SECONDS: Final = 2.0
LONGEST_PAUSE_SECONDS: Final = 30.0

BreakerState = Literal["closed", "open", "half open"]


@dataclass(slots=True)
class Breaker:
    """Counts losses; open it lets nobody ask, half open one asks for all. A pause doubles while losses go on."""

    clock: Callable[[], float] = time.monotonic
    losses: int = 0
    _pause_seconds: float = FIRST_PAUSE_SECONDS
    _opened_until: float | None = None
    _probing: bool = False

    @property
    def state(self) -> BreakerState:
        """Its state now; it turns from open to half open by itself."""
        if self._opened_until is None:
            return "closed"
        return "open" if self.clock() < self._opened_until else "half open"

    @property
    def seconds_left(self) -> float:
        """Seconds until somebody may ask again, 0 if one may now."""
        return 0.0 if self._opened_until is None else max(0.0, self._opened_until - self.clock())

    def allows(self) -> bool:
        """Say whether the caller may ask now; half open only the first one may, until it reports what came of it."""
        if self.state == "closed":
            return True
        if self.state == "open" or self._probing:
            return False
        self._probing = True
        return True

    def answered(self) -> None:
        """Note that the store answered, be it with an error of its own."""
        self.losses, self._opened_until, self._probing = 0, None, False
        self._pause_seconds = FIRST_PAUSE_SECONDS

    def lost(self) -> None:
        """Note that the store did not answer."""
        self.losses += 1
        if self._probing:
            self._pause_seconds = min(2 * self._pause_seconds, LONGEST_PAUSE_SECONDS)
        if self._probing or self.losses >= LOSSES:
            self._opened_until = self.clock() + self._pause_seconds
        self._probing = False

    def withdrawn(self) -> None:
        """Note that the caller gave up before anything could be learned."""
        self._probing = False
