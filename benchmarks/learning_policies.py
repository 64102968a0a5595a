"""Who acts after a failure: the step's own policy, the oracle, and memory through the real advice code."""

from collections import defaultdict
from dataclasses import dataclass, field
from math import exp
from typing import Protocol

from benchmarks.learning_oracle import STOP, Act, Oracle
from benchmarks.learning_world import Cause, Cell, World
from memory.learning.advice import Admissible, advise
from memory.learning.evidence import AppliedAction, Attempt, Evidence, StepOutcome, fold, tried_in
from memory.learning.prevent import prevent, recent_signatures

WINDOW = 200  # observations that the store hands over


@dataclass
class Play:
    """One step execution as it unfolds."""

    cell: Cell
    prevented: int | None = None
    attempts: int = 1
    stage: int = 0
    acts: tuple[Act, ...] = ()  # in the current stage
    waited: float = 0.0
    repairs: int = 0
    recovered: bool = False
    stopped: bool = False
    records: list[Attempt] = field(default_factory=list)

    @property
    def signature(self) -> str:
        """Give the signature that the step fails with now."""
        return self.cell.situation[self.stage].signature


class Policy(Protocol):
    """Somebody who decides what comes before an attempt."""

    def next_act(self, play: Play) -> Act:
        """Choose after a failure."""
        ...

    def begin(self, cell: Cell) -> int | None:
        """Choose a repair before attempt 1, if any."""
        ...

    def failed(self, play: Play, act: Act) -> None:
        """Hear of a failed attempt and of the act before it."""
        ...

    def ended(self, play: Play, act: Act) -> None:
        """Hear of the end; `act` came before the last attempt."""
        ...


class Static:
    """The step without memory: each declared repair once, then its own delays."""

    def __init__(self, world: World) -> None:
        self.world = world

    def next_act(self, play: Play) -> Act:
        """Take the next repair, or the next delay."""
        retry = play.attempts - 1
        return Act(repair=retry) if retry < play.cell.repairs else Act(wait=self.world.own_delay(retry))

    def begin(self, cell: Cell) -> int | None:
        """Prevent nothing."""
        del cell
        return None

    def failed(self, play: Play, act: Act) -> None:
        """Learn nothing."""

    def ended(self, play: Play, act: Act) -> None:
        """Learn nothing."""


class Knowing(Static):
    """The oracle; when `preventing`, it applies the best repair first wherever that pays."""

    def __init__(self, world: World, preventing: bool = False) -> None:
        super().__init__(world)
        self.oracle = Oracle(world)
        self.preventing = preventing

    def next_act(self, play: Play) -> Act:
        """Follow the plan with the least expected cost."""
        left = self.world.attempts - play.attempts
        return self.oracle.plan(play.cell.situation, play.stage, play.cell.repairs, play.acts, left)[1]

    def begin(self, cell: Cell) -> int | None:
        """Prevent when the repair's price is below the attempt it is expected to save."""
        if not self.preventing:
            return None
        chances = [
            sum(weight * cause.repairs[i] for weight, cause in cell.situation[0].causes) for i in range(cell.repairs)
        ]
        best = max(range(cell.repairs), key=lambda i: chances[i])
        return best if cell.rate * chances[best] > 0.2 else None


class Memory(Static):
    """The real evidence, advice and prevention over an in-memory store of the last observations of a key."""

    def __init__(self, world: World, preventing: bool = False) -> None:
        super().__init__(world)
        self.preventing = preventing
        self.order = 0
        self.by_key: dict[tuple[int, str, str], list[list[Attempt]]] = defaultdict(list)
        self.outcomes: dict[tuple[int, str], list[StepOutcome]] = defaultdict(list)

    def next_act(self, play: Play) -> Act:
        """Ask the advice."""
        evidence = self._evidence(play.cell, play.signature, play.records[0].occurrence)
        admissible = Admissible(
            repairs=tuple(f"repair-{i}" for i in range(play.cell.repairs)),
            next_delay_seconds=self.world.own_delay(play.attempts - 1),
            longest_delay_seconds=self.world.longest_delay,
            attempts_left=self.world.attempts - play.attempts,
        )
        advice = advise(evidence, admissible, tried_in(play.records, play.records[0].occurrence, play.signature))
        if advice.verdict in ("stop", "escalate"):
            return STOP
        if advice.repair is not None:
            return Act(repair=int(advice.repair.removeprefix("repair-")))
        return Act(wait=advice.delay_seconds)

    def _evidence(self, cell: Cell, signature: str, occurrence: str | None) -> Evidence:
        known = self.by_key.get((cell.scope, cell.step, signature), [])
        attempts: list[Attempt] = []
        for records in reversed(known):
            if len(attempts) + len(records) > WINDOW:
                break
            attempts += records
        return fold(attempts, signature, cell.environment, occurrence)

    def begin(self, cell: Cell) -> int | None:
        """Ask the prevention, in its own run only."""
        if not self.preventing:
            return None
        outcomes = self.outcomes[cell.scope, cell.step]
        recent = recent_signatures(outcomes, cell.environment)
        evidence = {signature: self._evidence(cell, signature, None) for signature in recent}
        allowed = [f"repair-{i}" for i in range(cell.repairs)]
        found = prevent(outcomes, evidence, allowed, cell.environment)
        if found is None or found.held_out:
            return None
        return int(found.repair.removeprefix("repair-"))

    def failed(self, play: Play, act: Act) -> None:
        """Record the failed attempt under its signature."""
        self._record(play, act, "failed")
        cell = play.cell
        known = self.by_key[cell.scope, cell.step, play.signature]
        if not known or known[-1] is not play.records:
            known.append(play.records)

    def ended(self, play: Play, act: Act) -> None:
        """Record a success, and how the step began."""
        if play.recovered and play.records:
            self._record(play, act, "succeeded")
        if self.preventing:
            self._record_step(play)

    def _record(self, play: Play, act: Act, outcome: str) -> None:
        cell = play.cell
        self.order += 1
        run = f"{cell.scope}/{cell.run}"
        applied = self._applied(play, act)
        failed = outcome == "failed"
        play.records.append(
            Attempt(
                run + "/" + cell.step,
                run,
                play.attempts,
                "failed" if failed else "succeeded",
                play.signature if failed else None,
                applied,
                cell.environment,
                self.order,
            )
        )

    def _applied(self, play: Play, act: Act) -> AppliedAction:
        if play.attempts == 1:
            if play.prevented is None:
                return AppliedAction()
            return AppliedAction("prevention", f"repair-{play.prevented}")
        if act.repair is not None:
            return AppliedAction("repair", f"repair-{act.repair}", 0.0, play.waited)
        return AppliedAction("wait", None, act.wait, play.waited)

    def _record_step(self, play: Play) -> None:
        cell = play.cell
        first = play.records[0].signature if play.records else None
        by = None if play.prevented is None else f"repair-{play.prevented}"
        self.outcomes[cell.scope, cell.step].append(
            StepOutcome(
                f"{cell.run}",
                "",
                1,
                cell.environment,
                by,
                "first" if by else None,
                first,
                play.recovered,
                self.order,
            )
        )


def play_step(cell: Cell, world: World, policy: Policy) -> Play:
    """Let a policy carry one step execution to its end."""
    play = Play(cell, prevented=policy.begin(cell))
    act = Act(repair=play.prevented)
    incident = cell.draws.incident < cell.rate
    if not incident or _prevents(play):
        _advance(play)
    elif play.prevented is not None:
        play.acts = (act,)
    while not play.recovered:
        policy.failed(play, act)
        if play.attempts >= world.attempts:
            break
        act = policy.next_act(play)
        if act.stop:
            play.stopped = True
            break
        _retry(play, act)
    policy.ended(play, act)
    return play


def _prevents(play: Play) -> bool:
    # Chance and time have had no second try before attempt 1: only the repair itself can help.
    if play.prevented is None:
        return False
    return play.cell.draws.attempts[0] < _drawn_cause(play).repairs[play.prevented]


def _advance(play: Play) -> None:
    last = play.stage + 1 == len(play.cell.situation) or play.cell.draws.incident >= play.cell.rate
    if last:
        play.recovered = True
    else:
        play.stage, play.acts = play.stage + 1, ()


def _retry(play: Play, act: Act) -> None:
    play.attempts += 1
    play.waited += act.wait
    play.repairs += act.repair is not None
    ended = _ends(play, act)
    play.acts = (*play.acts, act)
    if ended:
        _advance(play)


def _ends(play: Play, act: Act) -> bool:
    """Apply the draws: does this attempt get past the current stage?"""
    draws, cause = play.cell.draws, _drawn_cause(play)
    draw = draws.attempts[play.attempts - 1]
    if cause.median:
        elapsed = act.wait + sum(earlier.wait for earlier in play.acts)
        if elapsed >= cause.median * exp(cause.sigma * draws.delay[min(play.stage, 1)]):
            return True
    chance = cause.chance
    if act.repair is not None and not _harmed(play, cause):
        chance = 1 - (1 - chance) * (1 - cause.repairs[act.repair])
    return draw < chance


def _drawn_cause(play: Play) -> Cause:
    draw = play.cell.draws.cause[min(play.stage, 1)]
    causes = play.cell.situation[play.stage].causes
    for weight, cause in causes:
        if draw < weight:
            return cause
        draw -= weight
    return causes[-1][1]


def _harmed(play: Play, cause: Cause) -> bool:
    return any(a.repair is not None and cause.harmful and cause.harmful[a.repair] for a in play.acts)
