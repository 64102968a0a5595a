"""What an attempt puts into a workflow's history stays bounded, through the builders that really make it."""

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from executors.command import room_for
from executors.excerpts import BothEnds
from executors.reports import read_report
from executors.secret_values import Mask
from poimen.contracts.definition import Step
from poimen.contracts.execution import CommandResult, ModelResult, OutputReference, RunCommand, RunModel
from poimen.contracts.message import decode, encode
from poimen.excerpts import THIRD, WHOLE, cut_head
from poimen.step_rules import StepPolicy
from poimen.step_state import AttemptReport
from tests.step.scripted_world import FAILED, START, World, package, run, spec
from workflows import attempts

ATTEMPT, STEP_OF_FOUR = 32 * 1024, 128 * 1024
STORED = OutputReference(sha256="0" * 64, host="h" * 64, bytes=2**31)
PLACE = attempts.WorkPlace("r" * 36, "q", "w" * 100, tenant="acme")

COMMAND = {"run": {"command": ["./serve"], "prompt": "{{context}}"}}
MODEL = {"run": {"model": "small", "prompt": "{{context}}"}}
VERIFY = {"verify": {"command": ["./healthy"]}}
JUDGE = {"judge": {"command": ["./score"]}}
RUBRIC = {"judge": {"model": "small", "rubric": "Is it good?"}}
REPORT = {"output": 3_000, "lesson": 3_000, "decision": 3_000, "artifacts": 100, "indexed": 100, "changed_files": 100}


@dataclass
class Measured(World):
    """Counts every message of a step as the JSON a history keeps; every text is as large as its sender makes it.

    ``exits`` has the exit status of each purpose, of a model's judgement whether it passes.
    """

    body: dict[str, Any] = field(default_factory=dict)
    exits: dict[str, int] = field(default_factory=dict)
    character: str = "x"
    report: Path | None = None
    checkpoint: OutputReference | None = None
    sizes: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.answers["GetContext"] = lambda message: _full_package(message, self.character)

    def add(self, attempt: int, *messages: Any) -> None:
        self.sizes[attempt] += sum(len(json.dumps(message)) for message in messages)

    async def attempt(self, work: Any) -> AttemptReport:
        await super().attempt(work)
        step = decode(Step, {"id": "serve", **self.body}).message
        report = await attempts.attempt(step, work, PLACE, self.checkpoint)
        self.checkpoint = report.checkpoint or self.checkpoint
        return report

    async def run_command(self, _queue: str, asked: RunCommand, _summary: str, _left: float | None) -> CommandResult:
        ended = CommandResult(end="exited", exit_code=self.exits[asked.purpose])
        warnings: list[str] = []
        report = None if self.report is None else read_report(self.report, asked.purpose, Mask(()), warnings)
        excerpt = self._output().excerpt(*room_for(asked, ended, report))
        kept = STORED if asked.purpose == "step" else None
        parts = {"head": excerpt.head, "tail": excerpt.tail, "output": STORED, "report": report, "checkpoint": kept}
        answer = ended.model_copy(update={**parts, "output_bytes": 2**31, "warnings": tuple(warnings)})
        self.add(asked.attempt, encode(asked), encode(answer))
        return answer

    async def run_model(self, _queue: str, asked: RunModel, _summary: str, _left: float | None) -> ModelResult:
        text = self._output().excerpt(*(THIRD if asked.purpose == "judge" else WHOLE)).text(2**31)
        answer = ModelResult(end="answered", text=text, output=STORED, prompt_tokens=10**6)
        self.add(asked.attempt, encode(asked), encode(answer))
        return answer

    def _output(self) -> BothEnds:
        ends = BothEnds()
        ends.feed((self.character * 60_000).encode())
        return ends

    async def __call__(self, activity: str, message: dict[str, Any], summary: str) -> object:
        answer = await super().__call__(activity, message, summary)
        self.add(0 if activity == "DocumentDecision" else message["attempt"], message, answer)
        return answer


def _full_package(message: dict[str, Any], character: str) -> dict[str, Any]:
    item = {
        "id": "les-7f3c21d0",
        "kind": "lesson",
        "level": "L1",
        "title": "Port taken",
        "text": cut_head(character * 1_800, 1_800),
        "origin": "harness_outcome",
        "trust": "observed",
        "recorded_at": START.isoformat(),
        "because": "same step",
    }
    return package(message, items=[{**item, "tier": tier} for tier in ("signatures", "vectors", "vault")])


def _report(folder: Path, character: str) -> Path:
    texts = {name: character * size for name, size in REPORT.items() if size > 100}
    lists = {name: [character * 20] * size for name, size in REPORT.items() if size <= 100}
    path = folder / "report"
    path.write_text(json.dumps({**texts, **lists, "tokens": 10**12}))
    return path


async def _measured(world: Measured, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the step; return the bytes of it all."""

    class Now:
        def now(self) -> datetime:
            return world.clock

    monkeypatch.setattr(attempts, "run_command", world.run_command)
    monkeypatch.setattr(attempts, "run_model", world.run_model)
    monkeypatch.setattr(attempts, "workflow", Now())
    result, _ = await run(world, spec(StepPolicy(attempts=4), task="the task " * 10))
    return sum(world.sizes.values()) + len(json.dumps(encode(result)))


FAILURES: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "command": (COMMAND, {"step": 1}),
    "verification": (COMMAND | VERIFY, {"step": 0, "verify": 1}),
    "command and verification": (COMMAND | VERIFY, {"step": 1, "verify": 1}),
    "judge": (COMMAND | JUDGE, {"step": 0, "judge": 1}),
    "judge after verification": (COMMAND | VERIFY | JUDGE, {"step": 0, "verify": 0, "judge": 1}),
    "judge after both": (COMMAND | VERIFY | JUDGE, {"step": 1, "verify": 0, "judge": 1}),
    "model's judgement": (COMMAND | RUBRIC, {"step": 0}),
    "model's judgement after verification": (COMMAND | VERIFY | RUBRIC, {"step": 0, "verify": 0}),
    "model's judgement of a model": (MODEL | RUBRIC, {}),
    "judge of a model": (MODEL | VERIFY | JUDGE, {"verify": 0, "judge": 1}),
}


@pytest.mark.parametrize("character", ["x", "\U0001f525", "\x01", "\n"])
@pytest.mark.parametrize("reports", [False, True], ids=["plain", "with a report"])
@pytest.mark.parametrize("case", FAILURES)
async def test_four_failed_attempts_stay_within_a_historys_share(
    case: str, reports: bool, character: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, exits = FAILURES[case]
    report = _report(tmp_path, character) if reports else None
    world = Measured([FAILED], body=body, exits=exits, character=character, report=report)

    total = await _measured(world, monkeypatch)

    assert len(world.works) == 4
    assert max(size for attempt, size in world.sizes.items() if attempt) <= ATTEMPT
    assert total <= STEP_OF_FOUR


SUCCESSES: dict[str, dict[str, Any]] = {
    "command": COMMAND,
    "verification": COMMAND | VERIFY,
    "judge": COMMAND | VERIFY | JUDGE,
}


@pytest.mark.parametrize("reports", [False, True], ids=["plain", "with a report"])
@pytest.mark.parametrize("case", SUCCESSES)
async def test_an_attempt_that_passes_stays_within_a_historys_share(
    case: str, reports: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = _report(tmp_path, "é") if reports else None
    exits = {"step": 0, "verify": 0, "judge": 0}
    world = Measured([FAILED], body=SUCCESSES[case], exits=exits, character="é", report=report)

    await _measured(world, monkeypatch)

    assert max(world.sizes.values()) <= ATTEMPT
