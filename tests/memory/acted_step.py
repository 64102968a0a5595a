"""A step that asks and tells the real memory as the step loop does, without Temporal."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from memory.analyze import analyze
from memory.document import document
from memory.journal import Origin, Provenance
from memory.learn import learn
from memory.recall import recall
from memory.stores import Caller, Stores
from poimen.contracts.memory_calls import (
    Analysis,
    AnalyzeError,
    AppliedAction,
    AttemptRecord,
    ContextPackage,
    DocumentDecision,
    GetContext,
    LearnFromExecution,
)

PORT_TAKEN = "OSError: [Errno 98] Address already in use"
NO_MODULE = "ModuleNotFoundError: No module named 'yaml'"

# Given the repairs applied so far in this run, the error of an attempt, or None when it succeeds.
World = Callable[[list[str]], str | None]
_numbers = itertools.count(1)


def caller(tenant: str = "local", key: str | None = None, **values: Any) -> Caller:
    """A caller whose key is used once, unless it is given."""
    values = {"origin": Origin.HARNESS_OUTCOME, **values}
    return Caller(tenant, Provenance(key=key or f"key-{next(_numbers)}", **values), 20.0)


@dataclass
class Acted:
    """What happened in one step execution."""

    packages: list[ContextPackage] = field(default_factory=list)
    analyses: list[Analysis] = field(default_factory=list)
    attempts: list[AttemptRecord] = field(default_factory=list)
    end: str = ""

    @property
    def actions(self) -> list[str]:
        """What was done before each attempt: a repair, "prevent REPAIR", "wait" or "none"."""
        return [_name(record.applied) for record in self.attempts]


def _name(applied: AppliedAction) -> str:
    if applied.kind == "prevention":
        return f"prevent {applied.repair}"
    return applied.repair or applied.kind


@dataclass
class ActedStep:
    """A step of a harness, run again and again over one memory."""

    stores: Stores
    step: str = "serve"
    repairs: tuple[str, ...] = ("free-port", "reboot")
    scope: str = "acme/api"
    most_attempts: int = 4
    environment: dict[str, str] = field(default_factory=dict)
    branch: str | None = None

    async def run(self, run: str, world: World, *, follow: bool = True) -> Acted:
        acted, applied, done = Acted(), AppliedAction(), []
        for number in range(1, self.most_attempts + 1):
            package = await self._recall(run, number, acted)
            if number == 1 and package.prevention is not None and follow:
                applied = AppliedAction(kind="prevention", repair=package.prevention.repair, exit_code=0)
                done.append(package.prevention.repair)
            error = world(done)
            if error is None:
                await self._learned(run, number, applied, acted)
                break
            analysis = await self._analyzed(run, number, applied, error, acted)
            if analysis.advice.verdict in {"stop", "escalate"} and follow:
                acted.end = "stopped"
                break
            applied = self._next(analysis, number, follow=follow)
            done += [applied.repair] if applied.repair else []
        acted.end = acted.end or "failed"
        await self._documented(run, acted)
        return acted

    def _next(self, analysis: Analysis, number: int, *, follow: bool) -> AppliedAction:
        since = float(2**number)
        advice = analysis.advice
        if advice.verdict == "repair" and follow:
            return AppliedAction(kind="repair", repair=advice.repair, since_first_failure_seconds=since)
        wait = advice.delay_seconds if follow else 1.0
        kind = "wait" if wait else "none"
        return AppliedAction(kind=kind, waited_seconds=wait, since_first_failure_seconds=since + wait)

    def _call(self, run: str, number: int) -> dict[str, Any]:
        return {
            "scope": self.scope,
            "run": run,
            "branch": self.branch,
            "step": self.step,
            "attempt": number,
            "tool": "executor",
            "environment": self.environment,
        }

    def _caller(self, run: str, number: int, verb: str) -> Caller:
        return caller(
            key=f"{run}:{self.branch}:{self.step}:1:{number}:{verb}",
            workflow_id=f"{run}/{self.step}",
            run_id=f"id-{run}",
        )

    async def _recall(self, run: str, number: int, acted: Acted) -> ContextPackage:
        last = acted.analyses[-1].signature if acted.analyses else None
        call = GetContext(
            **self._call(run, number),
            task="serve the api",
            repairs=self.repairs,
            last_signature=last,
            deadline_ms=20_000,
        )
        package = await recall(call, self._caller(run, number, "recall"), self.stores)
        acted.packages.append(package)
        return package

    async def _learned(self, run: str, number: int, applied: AppliedAction, acted: Acted) -> None:
        acted.end = "succeeded"
        acted.attempts.append(AttemptRecord(attempt=number, outcome="succeeded", applied=applied))
        call = LearnFromExecution(
            **self._call(run, number),
            outcome="succeeded",
            applied=applied,
            package_id=acted.packages[-1].package_id,
        )
        await learn(call, self._caller(run, number, "learn"), self.stores)

    async def _analyzed(self, run: str, number: int, applied: AppliedAction, error: str, acted: Acted) -> Analysis:
        call = AnalyzeError(
            **self._call(run, number),
            error=error,
            exit_code=1,
            applied=applied,
            repairs=self.repairs,
            attempts_left=self.most_attempts - number,
            next_delay_seconds=1.0,
            longest_delay_seconds=4.0,
            package_id=acted.packages[-1].package_id,
        )
        analysis = await analyze(call, self._caller(run, number, "analyze"), self.stores)
        acted.analyses.append(analysis)
        acted.attempts.append(
            AttemptRecord(
                attempt=number,
                outcome="failed",
                source="step",
                signature=analysis.signature,
                title=analysis.title,
                applied=applied,
                advice=analysis.advice,
                next_move="advice: as memory said",
            )
        )
        return analysis

    async def _documented(self, run: str, acted: Acted) -> None:
        call = DocumentDecision(
            **self._call(run, len(acted.attempts)),
            kind="step_completion",
            decision=acted.end,
            reasoning=f"ended {acted.end}",
            end=acted.end,
            attempts=tuple(acted.attempts),
            prevention=acted.packages[0].prevention,
            memory="on",
        )
        await document(call, self._caller(run, len(acted.attempts), "document"), self.stores)


def cured_by(repair: str, error: str = PORT_TAKEN) -> World:
    """A world in which one repair ends the error of every run."""
    return lambda done: None if repair in done else error


def incurable(error: str = PORT_TAKEN) -> World:
    """A world in which nothing helps."""
    return lambda _: error


def healthy(_: list[str]) -> str | None:
    """A world in which nothing fails."""
    return None
