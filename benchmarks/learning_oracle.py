"""The yardstick: a policy that knows the causes and their chances, but not the draws."""

from functools import cache
from math import erf, exp, log, sqrt
from typing import NamedTuple

from benchmarks.learning_world import Cause, Situation, World

REPAIR_PRICE, ATTEMPT_SECONDS, UNRECOVERED = 0.2, 60.0, 10.0
REACH = (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5)


class Act(NamedTuple):
    """Apply repair number `repair` at once, or wait; neither: stop."""

    repair: int | None = None
    wait: float = 0.0
    stop: bool = False


STOP = Act(stop=True)


def _over(cause: Cause, elapsed: float) -> float:
    """Give the chance that the drawn delay is at most `elapsed`."""
    if not cause.median or elapsed <= 0:
        return 0.0
    return 0.5 * (1 + erf(log(elapsed / cause.median) / (cause.sigma * sqrt(2))))


@cache
def survival(cause: Cause, acts: tuple[Act, ...]) -> float:
    """Give the chance that the failure is still there after the acts."""
    alive, elapsed, harmed = 1.0, 0.0, False
    for act in acts:
        elapsed += act.wait
        alive *= 1 - cause.chance
        if act.repair is not None:
            alive *= 1 if harmed else 1 - cause.repairs[act.repair]
            harmed = harmed or bool(cause.harmful and cause.harmful[act.repair])
    return alive * (1 - _over(cause, elapsed))


def success(situation: Situation, stage: int, acts: tuple[Act, ...], act: Act) -> float:
    """Give the true chance that `act` ends the stage, after `acts` did not."""
    before = sum(weight * survival(cause, acts) for weight, cause in situation[stage].causes)
    after = sum(weight * survival(cause, (*acts, act)) for weight, cause in situation[stage].causes)
    return 1 - after / before if before > 0 else 0.0


@cache
def _options(
    situation: Situation, stage: int, repairs: int, elapsed: float, limits: tuple[float, float]
) -> tuple[Act, ...]:
    own, longest = limits
    totals = {
        cause.median * exp(cause.sigma * z) for _, cause in situation[stage].causes if cause.median for z in REACH
    }
    waits = sorted({own, *(t - elapsed for t in totals if 0 < t - elapsed <= longest), longest})
    return (*(Act(repair=i) for i in range(repairs)), *(Act(wait=wait) for wait in waits))


class Oracle:
    """Plan with the least attempts + 0.2 a repair + a minute's wait as one attempt + 10 when not recovered."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.plan = cache(self._plan)

    def options(
        self, situation: Situation, stage: int, repairs: int, acts: tuple[Act, ...], left: int
    ) -> tuple[Act, ...]:
        """Give every act the step admits."""
        own = self.world.own_delay(self.world.attempts - 1 - left)
        elapsed = sum(act.wait for act in acts)
        return _options(situation, stage, repairs, elapsed, (own, self.world.longest_delay))

    def _plan(
        self, situation: Situation, stage: int, repairs: int, acts: tuple[Act, ...], left: int
    ) -> tuple[float, Act]:
        """Give the least expected cost from here, and the act that begins it."""
        best = (UNRECOVERED, STOP)
        if left == 0:
            return best
        for act in self.options(situation, stage, repairs, acts, left):
            chance = success(situation, stage, acts, act)
            if chance <= 0 and left == 1:
                continue
            cost = 1 + act.wait / ATTEMPT_SECONDS + (REPAIR_PRICE if act.repair is not None else 0.0)
            if stage + 1 < len(situation) and chance > 0:
                cost += chance * self.plan(situation, stage + 1, repairs, (), left - 1)[0]
            if cost < best[0]:
                cost += (1 - chance) * self.plan(situation, stage, repairs, (*acts, act), left - 1)[0]
            if cost < best[0] - 1e-9:
                best = (cost, act)
        return best
