"""Which step of a run is next: needs, settled steps, visits and bounded ways back. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from poimen.contracts.definition import GoTo, Phase, Step, WorkflowDef
from poimen.contracts.vocabulary import StepEnd


@dataclass(frozen=True)
class WayBack:
    """A way back that a failure asks for: of what (``step:ID`` or ``gate:ID``), where to, and why."""

    source: str
    way: GoTo
    # The step that failed, None for a gate.
    failed: str | None = None
    reason: str = ""


@dataclass
class RunPlan:
    """The place of a run in its definition."""

    definition: WorkflowDef
    phase: int = 0
    # How many phases were begun, revisits included; it tells a phase's records apart.
    phase_visits: int = 0
    done: dict[str, StepEnd] = field(default_factory=dict)
    visits: dict[str, int] = field(default_factory=dict)
    go_tos: dict[str, int] = field(default_factory=dict)

    @property
    def current(self) -> Phase | None:
        """The phase that is being worked on, None after the last."""
        phases = self.definition.phases
        return phases[self.phase] if self.phase < len(phases) else None

    def ready(self, running: set[str]) -> list[Step]:
        """Return the steps that may start now, in declared order."""
        phase = self.current
        if phase is None:
            return []
        here = {step.id for step in phase.steps}
        return [
            step
            for step in phase.steps
            if step.id not in self.done
            and step.id not in running
            # A need of an earlier phase is settled before this phase begins.
            and all(need in self.done for need in step.needs if need in here)
        ]

    def visit(self, step: str) -> int:
        """Count one more visit of a step and return its number."""
        self.visits[step] = self.visits.get(step, 0) + 1
        return self.visits[step]

    def go_back(self, ways: Sequence[WayBack]) -> WayBack | None:
        """Make the targets and all that follows them due again, and count each way once.

        Return the first way that is used up; nothing changes then.
        """
        for back in ways:
            if self.go_tos.get(back.source, 0) >= back.way.at_most:
                return back
        origin = self.phase
        for back in ways:
            self.go_tos[back.source] = self.go_tos.get(back.source, 0) + 1
            for step in self._due_again(back, origin):
                self.done.pop(step, None)
            self.phase = min(self.phase, self._phase_of(back.way.go_to))
        return None

    def _due_again(self, back: WayBack, origin: int) -> set[str]:
        phases = self.definition.phases
        target = self._phase_of(back.way.go_to)
        again = _dependents(phases[target], {back.way.go_to})
        for phase in phases[target + 1 : origin + 1]:
            again |= {step.id for step in phase.steps}
        if back.failed is not None and target == origin:
            again |= _dependents(phases[target], {back.failed})
        return again

    def _phase_of(self, step_id: str) -> int:
        for number, phase in enumerate(self.definition.phases):
            if any(step.id == step_id for step in phase.steps):
                return number
        raise AssertionError(step_id)  # because the definition was checked when it was decoded


def _dependents(phase: Phase, roots: set[str]) -> set[str]:
    found = set(roots)
    while True:
        more = {step.id for step in phase.steps if found.intersection(step.needs)} - found
        if not more:
            return found
        found |= more
