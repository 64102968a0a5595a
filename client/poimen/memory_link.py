"""Memory as a step sees it: every call bounded, every loss survived, every record kept for later.

One lost call silences memory for 30 s; the next call after that is the probe. A record that could not be written joins
the backlog under the key it already has.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from poimen.contracts.memory_calls import (
    Analysis,
    AnalyzeError,
    Call,
    ContextPackage,
    DocumentDecision,
    Documented,
    GetContext,
    Learned,
    LearnFromExecution,
)
from poimen.contracts.message import Message, decode, encode
from poimen.contracts.problems import InvalidInput
from poimen.contracts.run_io import PendingRecord

SILENCE = timedelta(seconds=30)
# A step of a thousand attempts writes one record an attempt and one at its end.
MOST_PENDING = 256

A = TypeVar("A", bound=Message)


class MemoryLost(Exception):
    """Memory did not answer in time or could not reach its store."""


class MemoryRefused(Exception):
    """Memory answered with a final error: sending the same message again cannot help."""


class MemoryCaller(Protocol):
    """Sends one message to one memory activity, by name, at most once."""

    async def __call__(self, activity: str, message: dict[str, object], summary: str) -> object:
        """Return the activity's JSON answer; raise ``MemoryLost`` or ``MemoryRefused``."""

    def now(self) -> datetime:
        """Return the present instant (workflow time)."""


@dataclass
class MemoryLink:
    """The four calls over one caller, with the breaker and the backlog of this step or run."""

    caller: MemoryCaller
    silent_until: datetime | None = None
    pending: list[PendingRecord] = field(default_factory=list)
    dropped: int = 0
    losses: list[str] = field(default_factory=list)

    async def recall(self, call: GetContext, summary: str) -> ContextPackage | None:
        """Return a context package, or None when memory is lost; a read is never sent later."""
        package = await self._ask("GetContext", call, ContextPackage, summary)
        # The journal is in the same store as tier 1: when that is down, a record would only wait to be lost.
        if package is not None and any(r.tier == "signatures" and r.status == "down" for r in package.tiers):
            self.silent_until = self.caller.now() + SILENCE
        return package

    async def analyze(self, call: AnalyzeError, summary: str) -> Analysis | None:
        """Record a failed attempt and return its analysis, or None when memory is lost."""
        return await self._tell("AnalyzeError", call, Analysis, summary)

    async def learn(self, call: LearnFromExecution, summary: str) -> Learned | None:
        """Record a success, or keep it for later."""
        return await self._tell("LearnFromExecution", call, Learned, summary)

    async def document(self, call: DocumentDecision, summary: str) -> Documented | None:
        """Record a decision, or keep it for later."""
        return await self._tell("DocumentDecision", call, Documented, summary)

    @property
    def silent(self) -> bool:
        """Whether calls are being held back after a loss."""
        return self.silent_until is not None and self.caller.now() < self.silent_until

    async def _tell(self, activity: str, call: Call, answer: type[A], summary: str) -> A | None:
        refused = len(self.losses)
        told = await self._ask(activity, call, answer, summary)
        # A final refusal would be refused again; only what was lost is worth sending again.
        if told is None and len(self.losses) == refused:
            self._keep(activity, call)
        return told

    async def _ask(self, activity: str, call: Call, answer: type[A], summary: str) -> A | None:
        if self.silent:
            return None
        try:
            told = await self.caller(activity, encode(call), summary)
            decoded = decode(answer, told if isinstance(told, dict) else b"", activity)
        except MemoryLost:
            self.silent_until = self.caller.now() + SILENCE
            return None
        except (MemoryRefused, InvalidInput) as error:
            self.losses.append(f"{activity}: {error}")
            return None
        self.silent_until = None
        return decoded.message

    def _keep(self, activity: str, call: Call) -> None:
        if len(self.pending) >= MOST_PENDING:
            self.dropped += 1
            return
        self.pending.append(PendingRecord(activity=activity, message=encode(call)))
