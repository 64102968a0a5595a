"""Play seeds of the learning bench through the real use cases and a real PostgreSQL, beside the advice code alone.

Both see the same records, so that every difference between their decisions is the store's.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from benchmarks.learning_measure import Row, play_seed
from benchmarks.learning_oracle import STOP, Act
from benchmarks.learning_policies import Memory, Play, Static
from benchmarks.learning_world import Cell, World
from memory.analyze import analyze
from memory.journal import Origin, Provenance
from memory.learn import learn
from memory.stores import Caller, Stores
from poimen.contracts.memory_calls import AnalyzeError, AppliedAction, LearnFromExecution, RetryAdvice

DEADLINE_SECONDS = 60.0

Wait = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a coroutine on the loop of the stores and gives what it returns."""


class Difference(NamedTuple):
    """A decision on which the store and the advice code alone do not agree."""

    run: int
    step: str
    attempt: int
    stored: Act
    alone: Act


class Stored(Static):
    """The real AnalyzeError and LearnFromExecution; every seed has scopes of its own."""

    def __init__(self, world: World, seed: int, stores: Stores, wait: Wait) -> None:
        super().__init__(world)
        self.seed, self.stores, self.wait = seed, stores, wait
        self.advice: RetryAdvice | None = None

    def failed(self, play: Play, act: Act) -> None:
        """Report the failed attempt and keep the advice."""
        call = AnalyzeError(
            **self._place(play),
            error=f"StepError: {play.signature} went wrong",
            applied=_applied(play, act),
            repairs=tuple(f"repair-{number}" for number in range(play.cell.repairs)),
            attempts_left=self.world.attempts - play.attempts,
            next_delay_seconds=self.world.own_delay(play.attempts - 1),
            longest_delay_seconds=self.world.longest_delay,
        )
        self.advice = self.wait(analyze(call, self._caller(play), self.stores)).advice

    def next_act(self, play: Play) -> Act:
        """Follow the advice that the last failure was answered with."""
        del play
        if self.advice is None or self.advice.verdict in ("stop", "escalate"):
            return STOP
        if self.advice.repair is not None:
            return Act(repair=int(self.advice.repair.removeprefix("repair-")))
        return Act(wait=self.advice.delay_seconds)

    def ended(self, play: Play, act: Act) -> None:
        """Report a success."""
        if play.recovered:
            call = LearnFromExecution(**self._place(play), outcome="succeeded", applied=_applied(play, act))
            self.wait(learn(call, self._caller(play), self.stores))

    def _place(self, play: Play) -> dict[str, Any]:
        cell = play.cell
        return {
            "scope": f"seed-{self.seed}/{cell.scope}",
            "run": f"run-{cell.run}",
            "step": cell.step,
            "attempt": play.attempts,
            "environment": {"image": cell.environment},
        }

    def _caller(self, play: Play) -> Caller:
        cell = play.cell
        key = f"{self.seed}:{cell.scope}:{cell.run}:{cell.step}:{play.attempts}"
        return Caller("local", Provenance(key=key, origin=Origin.HARNESS_OUTCOME), DEADLINE_SECONDS)


def _applied(play: Play, act: Act) -> AppliedAction:
    if play.attempts == 1:
        return AppliedAction()
    if act.repair is not None:
        return AppliedAction(
            kind="repair", repair=f"repair-{act.repair}", exit_code=0, since_first_failure_seconds=play.waited
        )
    return AppliedAction(kind="wait", waited_seconds=act.wait, since_first_failure_seconds=play.waited)


class Compared(Static):
    """Follows the store, and asks the advice code alone beside it at every decision."""

    def __init__(self, stored: Stored, alone: Memory) -> None:
        super().__init__(stored.world)
        self.stored, self.alone = stored, alone
        self.decisions = 0
        self.differences: list[Difference] = []

    def next_act(self, play: Play) -> Act:
        """Give the store's decision."""
        ours, theirs = self.stored.next_act(play), self.alone.next_act(play)
        self.decisions += 1
        if ours != theirs:
            self.differences.append(Difference(play.cell.run, play.cell.step, play.attempts, ours, theirs))
        return ours

    def begin(self, cell: Cell) -> int | None:
        """Prevent nothing."""
        del cell
        return None

    def failed(self, play: Play, act: Act) -> None:
        """Tell both."""
        self.stored.failed(play, act)
        self.alone.failed(play, act)

    def ended(self, play: Play, act: Act) -> None:
        """Tell both."""
        self.stored.ended(play, act)
        self.alone.ended(play, act)


class Through(NamedTuple):
    """What seeds played through the store gave."""

    rows: list[list[Row]]
    decisions: int
    differences: list[Difference]


async def play_stored(world: World, seeds: Sequence[int], stores: Stores) -> Through:
    """Play the seeds through the stores; nothing is prevented."""
    loop = asyncio.get_running_loop()

    def wait(asked: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(asked, loop).result()

    found = Through([], 0, [])
    for seed in seeds:
        policy = Compared(Stored(world, seed, stores, wait), Memory(world))
        # The world is played in a thread, which waits for the loop at each report.
        found.rows.append(await asyncio.to_thread(play_seed, world, seed, policy))
        found = found._replace(decisions=found.decisions + policy.decisions)
        found.differences.extend(policy.differences)
    return found
