"""The order that `needs` gives the steps of one phase, in time that grows with the number of needs."""

from collections.abc import Mapping, Sequence


class StepOrder:
    """What must have ended before each step of a phase. Needs of other phases are left out.

    `cycle` is the ids along a cycle, the first one again at its end, or empty. With a cycle there is no order, and
    nothing counts as needed by what the cycle holds back.
    """

    def __init__(self, needs: Mapping[str, Sequence[str]]) -> None:
        inside = {step: tuple(dict.fromkeys(need for need in ahead if need in needs)) for step, ahead in needs.items()}
        order = _ordered(inside)
        ordered = set(order)
        self.cycle = _cycle({step: ahead for step, ahead in inside.items() if step not in ordered})
        # One bit a step: thousands of needs are joined in one operation.
        self._bit = {step: 1 << number for number, step in enumerate(order)}
        self._before: dict[str, int] = {}
        for step in order:
            self._before[step] = 0
            for need in inside[step]:
                self._before[step] |= self._bit[need] | self._before[need]

    def is_needed(self, earlier: str, step: str) -> bool:
        """Tell whether `earlier` must have ended before `step` begins, directly or through others."""
        return bool(self._before.get(step, 0) & self._bit.get(earlier, 0))


def _ordered(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the steps that no cycle holds back, each after all it needs."""
    waiting = {step: len(ahead) for step, ahead in needs.items()}
    dependents: dict[str, list[str]] = {step: [] for step in needs}
    for step, ahead in needs.items():
        for need in ahead:
            dependents[need].append(step)
    order = [step for step, count in waiting.items() if not count]
    for step in order:  # grows as it is walked
        for dependent in dependents[step]:
            waiting[dependent] -= 1
            if not waiting[dependent]:
                order.append(dependent)
    return order


def _cycle(left: Mapping[str, Sequence[str]]) -> list[str]:
    if not left:
        return []
    path = [next(iter(left))]  # every step left needs another one left, so the walk must meet itself
    while path[-1] not in path[:-1]:
        path.append(next(need for need in left[path[-1]] if need in left))
    return path[path.index(path[-1]) :]
