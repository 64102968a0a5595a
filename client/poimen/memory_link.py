"""Memory as a step sees it: every call bounded, every loss survived, every record kept for later.

One lost call silences memory for 30 s; the next call after that is the probe, and other calls wait for its answer. A
record that could not be written joins the backlog under the key it already has.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, Protocol, TypeVar

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
# Some KiB each: more would be a burden on the workflow's memory and on the messages that hand them over.
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


@dataclass(frozen=True)
class _Answer(Generic[A]):
    """What a call came to: an answer, a loss that may be made good later, or neither after a refusal."""

    message: A | None = None
    lost: bool = False


@dataclass
class MemoryLink:
    """The four calls over one caller, with the breaker and the backlog of this step or run.

    ``pending`` are the records to deliver later, at most 256; ``dropped`` counts the oldest ones that gave way to
    later ones. ``refused`` counts calls that memory answered with a final error, ``last_refusal`` is the latest.
    """

    caller: MemoryCaller
    silent_until: datetime | None = None
    pending: list[PendingRecord] = field(default_factory=list)
    dropped: int = 0
    refused: int = 0
    last_refusal: str = ""

    async def recall(self, call: GetContext, summary: str) -> ContextPackage | None:
        """Return a context package, or None when memory is lost; a read is never sent later."""
        package = (await self._ask("GetContext", call, ContextPackage, summary)).message
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
        try:
            told = await self._ask(activity, call, answer, summary)
        except asyncio.CancelledError:
            # Whether it arrived is not known; under its own key a second copy does no harm.
            self._keep(activity, call)
            raise
        # A final refusal would be refused again; only what was lost is worth sending again.
        if told.lost:
            self._keep(activity, call)
        return told.message

    async def _ask(self, activity: str, call: Call, answer: type[A], summary: str) -> _Answer[A]:
        if self.silent:
            return _Answer(lost=True)
        if self.silent_until is not None:
            # This call is the probe: whatever runs beside it stays silent until it is answered.
            self.silent_until = self.caller.now() + SILENCE
        try:
            told = await self.caller(activity, encode(call), summary)
            decoded = decode(answer, told if isinstance(told, dict) else b"", activity)
        except MemoryLost:
            self.silent_until = self.caller.now() + SILENCE
            return _Answer(lost=True)
        except (MemoryRefused, InvalidInput) as error:
            self.silent_until = None
            self.refused += 1
            self.last_refusal = f"{activity}: {error}"[:500]
            return _Answer()
        self.silent_until = None
        return _Answer(decoded.message)

    def _keep(self, activity: str, call: Call) -> None:
        self.pending.append(PendingRecord(activity=activity, message=encode(call)))
        # The last record of a step or run is the decision that tells the attempts again: it is the one to keep.
        if len(self.pending) > MOST_PENDING:
            del self.pending[0]
            self.dropped += 1
