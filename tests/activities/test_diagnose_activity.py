from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.activities.conftest import Call

PORT_TAKEN = "OSError: [Errno 98] Address already in use"


async def test_a_pasted_error_is_diagnosed_by_name(call: Call) -> None:
    place = {"scope": "acme/api", "run": "rel-1", "step": "serve"}
    await call("AnalyzeError", {**place, "error": PORT_TAKEN})
    applied = {"kind": "repair", "repair": "free-port"}
    await call("LearnFromExecution", {**place, "attempt": 2, "outcome": "succeeded", "applied": applied})
    answer = await call("DiagnoseIssue", {"scope": "acme/api", "text": PORT_TAKEN, "deadline_ms": 20_000})
    assert answer["causes"][0]["match"] == "same_failure"
    step = answer["recovery_steps"][0]
    assert (step["repair"], step["worked"], step["tried"], step["step"]) == ("free-port", 1, 1, "serve")
    assert [report["tier"] for report in answer["tiers"]] == ["signatures", "vectors", "vault"]


@pytest.mark.parametrize(
    "asked",
    [{}, {"text": PORT_TAKEN, "signature": "s1:" + "0" * 32}, {"text": None, "signature": None}],
    ids=["neither", "both", "nulls"],
)
async def test_an_issue_is_a_text_or_a_signature(call: Call, asked: dict[str, Any]) -> None:
    with pytest.raises(ApplicationError, match='DiagnoseIssue needs exactly one of "text", "signature"') as caught:
        await call("DiagnoseIssue", {"scope": "acme/api", **asked})
    assert (caught.value.type, caught.value.non_retryable) == ("InvalidInput", True)


async def test_the_library_may_be_asked_about(call: Call) -> None:
    answer = await call("DiagnoseIssue", {"scope": "@library", "text": PORT_TAKEN, "deadline_ms": 20_000})
    assert [cause["match"] for cause in answer["causes"]] == ["words"]


async def test_without_postgres_it_answers_and_says_so(call_down: Call) -> None:
    answer = await call_down("DiagnoseIssue", {"scope": "acme/api", "text": "ZyzzyvaError: q", "deadline_ms": 3_000})
    assert answer["empty_reason"] in {"tier_down", "deadline"}
    assert answer["tiers"][0]["status"] in {"down", "late"}
