"""A whole world of one step, in memory: a clock that only waits move, attempts by script, a memory that is told."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from poimen.contracts.run_io import StepResult
from poimen.memory_link import MemoryLink, MemoryLost
from poimen.step_loop import run_step
from poimen.step_rules import StepPolicy
from poimen.step_state import AttemptReport, AttemptWork, Progress, StepSpec

START = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
PASSED = AttemptReport("succeeded", output="done")
FAILED = AttemptReport("failed", error="OSError: [Errno 98] Address already in use", exit_code=1)

Answer = Callable[[dict[str, Any]], Any]


def package(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A context package; without more it knows nothing."""
    return {"package_id": f"ctx-{message['attempt']}", "created_at": START.isoformat(), **more}


def analysis(verdict: str = "retry", signature: str = "s1:" + "0" * 32, **advice: Any) -> dict[str, Any]:
    """An analysis whose advice is the verdict."""
    said = {"verdict": verdict, "confidence": 0.8, "because": "known", **advice}
    parts = {"family": "f", "kind": "os_error", "title": "port taken", "failing_line": "x", "event_id": "e"}
    return {"signature": signature, "advice": said, **parts}


@dataclass
class World:
    """Ports and memory's caller in one; ``log`` has every effect in order."""

    attempts: list[AttemptReport]
    seconds_an_attempt: float = 1.0
    repair_exits: dict[str, int | None] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    clock: datetime = START
    log: list[str] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    works: list[AttemptWork] = field(default_factory=list)
    pages: list[Progress] = field(default_factory=list)

    def now(self) -> datetime:
        return self.clock

    def bounds(self, policy: StepPolicy) -> StepPolicy:
        return policy

    async def attempt(self, work: AttemptWork) -> AttemptReport:
        self.works.append(work)
        self.log.append(f"attempt {work.attempt}")
        self.clock += timedelta(seconds=self.seconds_an_attempt)
        return self.attempts[min(work.attempt, len(self.attempts)) - 1]

    async def repair(self, repair: str, attempt: int) -> int | None:
        self.log.append(f"repair {repair} before {attempt}")
        return self.repair_exits.get(repair, 0)

    async def wait(self, seconds: float, why: str) -> None:
        self.log.append(f"wait {seconds:g}")
        self.clock += timedelta(seconds=seconds)

    def show(self, progress: Progress) -> None:
        self.pages.append(progress)

    async def __call__(self, activity: str, message: dict[str, Any], summary: str) -> object:
        self.calls.append((activity, message))
        return self.answers.get(activity, _DEFAULTS[activity])(message)

    def said(self, activity: str) -> list[dict[str, Any]]:
        """The messages one activity got."""
        return [message for name, message in self.calls if name == activity]

    def advise(self, *answers: dict[str, Any]) -> "World":
        """Answer the first failures with these analyses; the last one stays."""
        left = list(answers)
        self.answers["AnalyzeError"] = lambda _message: left.pop(0) if len(left) > 1 else left[0]
        return self

    def lose_memory(self) -> "World":
        """Let every call be lost."""
        for activity in _DEFAULTS:
            self.answers[activity] = _lost
        return self


def _lost(_message: dict[str, Any]) -> object:
    raise MemoryLost


_DEFAULTS: dict[str, Answer] = {
    "GetContext": package,
    "AnalyzeError": lambda _message: analysis(),
    "LearnFromExecution": lambda _message: {"event_id": "e"},
    "DocumentDecision": lambda _message: {"decision_id": "d"},
}


def spec(policy: StepPolicy | None = None, **more: Any) -> StepSpec:
    """A step called serve, of one run."""
    return StepSpec(scope="acme/api", step="serve", key="run-1", run="run-1", policy=policy or StepPolicy(), **more)


async def run(world: World, what: StepSpec | None = None) -> tuple[StepResult, MemoryLink]:
    """Run a step in its world."""
    memory = MemoryLink(world)
    return await run_step(what or spec(), world, memory), memory


def failures(number: int, *then: AttemptReport, **more: Any) -> World:
    """A world in which the first attempts fail; what follows passes unless given."""
    return World([*[FAILED] * number, *(then or (PASSED,))], **more)
