from collections.abc import Callable

import pytest

from memory.learning.advice import Admissible, Advice, FailureName, advise
from memory.learning.evidence import AppliedAction, Attempt, Evidence, StepOutcome, fold, tried_in
from memory.learning.prevent import Prevention, prevent

Action = str | float | None
Entry = tuple[Action, str]


class Story:
    """The history of one step, told attempt by attempt.

    An entry is (action, result): a repair's name, seconds waited or None before it; a signature or "ok" after it.
    """

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.outcomes: list[StepOutcome] = []
        self.environment = "python 3.12"

    def run(self, run: str, *entries: Entry, prevented: str | None = None) -> "Story":
        since = 0.0
        for number, (action, result) in enumerate(entries, start=1):
            if isinstance(action, float | int):
                since += action
                applied = AppliedAction("wait", None, action, since)
            elif action is not None:
                kind = "prevention" if number == 1 else "repair"
                applied = AppliedAction(kind, action, 0.0, since)
            else:
                applied = AppliedAction("none", None, 0.0, since)
            self.attempts.append(self._attempt(run, number, result, applied))
        if entries:
            first = None if entries[0][1] == "ok" else entries[0][1]
            by = entries[0][0]
            self.outcomes.append(
                StepOutcome(
                    run,
                    "",
                    1,
                    self.environment,
                    by if isinstance(by, str) else None,
                    (prevented or "S") if isinstance(by, str) else None,
                    first,
                    entries[-1][1] == "ok",
                    len(self.outcomes),
                )
            )
        return self

    def _attempt(self, run: str, number: int, result: str, applied: AppliedAction) -> Attempt:
        failed = result != "ok"
        return Attempt(
            occurrence=run,
            run=run,
            attempt=number,
            outcome="failed" if failed else "succeeded",
            signature=result if failed else None,
            applied=applied,
            environment=self.environment,
            recorded_order=len(self.attempts),
        )

    def evidence(self, signature: str = "S", occurrence: str | None = None) -> Evidence:
        return fold(self.attempts, signature, self.environment, occurrence)

    def advice(
        self,
        run: str,
        *repairs: str,
        signature: str = "S",
        title: str = "port taken",
        delay: float = 1.0,
        longest: float = 60.0,
        left: int = 3,
        asked: float | None = None,
        weak: bool = False,
    ) -> Advice:
        admissible = Admissible(repairs, delay, longest, left, asked, weak)
        tried = tried_in(self.attempts, run, signature)
        evidence = self.evidence(signature, run)
        name = FailureName(title, evidence.runs[0], evidence.last_helped_run)
        return advise(evidence, admissible, tried, name)

    def prevention(self, *repairs: str, signatures: tuple[str, ...] = ("S",)) -> Prevention | None:
        evidence = {signature: self.evidence(signature) for signature in signatures}
        return prevent(self.outcomes, evidence, repairs, self.environment)


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture
def new_story() -> Callable[[], Story]:
    return Story
