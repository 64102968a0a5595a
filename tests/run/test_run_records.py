"""What a run puts on record about itself, and how a workflow ends with a reason."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from poimen.contracts.message import decode, encode
from poimen.contracts.run_io import ExtendBudget, StartHarnessRun, StepResult
from poimen.entry import EMPTY
from workflows.messages import accept, detail_of, ended_badly
from workflows.run_records import RunEnd, RunIdentity, gate_decision, milestone, run_final, seconds_between

WHO = RunIdentity("run-1", "run-1", None, "wd1:" + "0" * 64, {"python": "3.12"})
STEP = {"id": "serve", "run": {"command": ["./serve"]}}
START = decode(
    StartHarnessRun,
    {"definition": {"name": "n", "scope": "acme/api", "phases": [{"id": "T0", "steps": [STEP]}]}, "memory": "observe"},
).message
RESULT = StepResult(step="serve", visit=1, end="failed", reason="3 of 3 attempts failed")


def test_the_records_of_a_run_have_keys_of_their_own() -> None:
    records = [
        *[gate_decision(START, WHO, phase, visit, None) for phase in ("T0", "run") for visit in (1, 2)],
        *[milestone(START, WHO, phase, visit) for phase in ("T0", "run") for visit in (1, 2)],
        run_final(START, WHO, RunEnd("succeeded", "1 of 1 steps passed"), 1.0, 0),
    ]

    keys = [record.idempotency_key for record in records]
    assert len(set(keys)) == len(keys) == 9
    assert all(str(key).startswith("run-1:") for key in keys)


def test_a_gate_is_documented_with_its_failure() -> None:
    decided = gate_decision(START, WHO, "T0", 2, "parts do not fit")

    assert (decided.kind, decided.decision, decided.visit) == ("gate", "gate of T0 failed: parts do not fit", 2)


def test_a_runs_end_tells_its_reason_and_what_it_cost() -> None:
    decided = run_final(START, WHO, RunEnd("exhausted", "the run's budget of 5 attempts is spent"), 12.5, 99)

    assert (decided.kind, decided.end, decided.seconds, decided.tokens) == ("run_final", "exhausted", 12.5, 99)
    assert decided.decision == "exhausted: the run's budget of 5 attempts is spent"
    assert (decided.memory, decided.environment) == ("observe", {"python": "3.12"})


def test_a_reason_of_any_length_can_be_documented() -> None:
    assert encode(run_final(START, WHO, RunEnd("failed", "x" * 10_000), 1.0, 0))


def test_time_never_runs_backwards() -> None:
    now = datetime(2026, 11, 29, tzinfo=UTC)

    assert seconds_between(now, now - timedelta(seconds=5)) == 0.0
    assert seconds_between(now, now + timedelta(seconds=5)) == 5.0


def test_an_end_without_success_carries_its_whole_result() -> None:
    error = ended_badly("Step serve: 3 of 3 attempts failed", RESULT, "StepFailed")

    assert (str(error), error.type, error.non_retryable) == (
        "StepFailed: Step serve: 3 of 3 attempts failed",
        "StepFailed",
        True,
    )
    assert decode(StepResult, detail_of(error, "StepFailed")).message == RESULT


@pytest.mark.parametrize(
    "error",
    [
        None,
        ValueError("x"),
        ApplicationError("x", type="StepFailed"),
        ApplicationError("x", "text", type="StepFailed"),
        ApplicationError("x", {"end": "failed"}, type="Other"),
    ],
)
def test_any_other_failure_has_no_result(error: BaseException | None) -> None:
    assert detail_of(error, "StepFailed") is None


def raw(data: bytes, encoding: bytes = b"json/plain") -> RawValue:
    return RawValue(Payload(metadata={"encoding": encoding}, data=data))


def test_an_input_is_read() -> None:
    assert accept(raw(b'{"attempts": 5}'), ExtendBudget, "extend_budget").message.attempts == 5


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (EMPTY, 'HarnessRun needs one JSON object with "definition"; it got none.'),
        (raw(b"", b"binary/null"), 'HarnessRun needs one JSON object with "definition"; it got none.'),
        (raw(b"x", b"binary/plain"), "HarnessRun needs one JSON object; it got a payload of another encoding."),
        (raw(b"[]"), 'HarnessRun needs one JSON object with "definition"; it got a list.'),
        (raw(b"{}"), "definition is missing."),
    ],
)
def test_bad_input_is_refused_for_good_with_a_sentence(given: RawValue, sentence: str) -> None:
    with pytest.raises(ApplicationError) as refused:
        accept(given, StartHarnessRun, "HarnessRun")

    error: Any = refused.value
    assert (error.type, error.non_retryable, error.message) == ("InvalidInput", True, sentence)
    assert error.details[0][0]["reason"] == sentence
