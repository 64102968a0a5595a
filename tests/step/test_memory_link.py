"""One lost call silences memory for 30 s; what could not be written waits; what is refused does not."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from poimen.contracts.memory_calls import AnalyzeError, DocumentDecision, GetContext, LearnFromExecution
from poimen.memory_link import MOST_PENDING, MemoryLink, MemoryLost, MemoryRefused
from tests.step.scripted_world import START, analysis, package

WHO: dict[str, Any] = {"scope": "acme/api", "step": "serve"}


class Caller:
    """Answers as it is told; time stands still until it is moved."""

    def __init__(self) -> None:
        self.clock, self.calls = START, 0
        self.answer: Callable[[], Any] = lambda: {"event_id": "e"}
        self.gate: asyncio.Event | None = None

    def now(self) -> datetime:
        return self.clock

    def lose(self) -> Any:
        raise MemoryLost

    def refuse(self) -> Any:
        raise MemoryRefused("TooLarge: the input has 3,000,000 bytes")

    async def __call__(self, activity: str, message: dict[str, object], summary: str) -> object:
        self.calls += 1
        answer = self.answer
        if self.gate is not None:
            await self.gate.wait()
        return answer()


@pytest.fixture
def caller() -> Caller:
    return Caller()


@pytest.fixture
def link(caller: Caller) -> MemoryLink:
    return MemoryLink(caller)


def success(attempt: int = 1) -> LearnFromExecution:
    return LearnFromExecution(
        **WHO, attempt=attempt, outcome="succeeded", idempotency_key=f"run-1:serve:1:{attempt}:learn"
    )


def failure(attempt: int = 1) -> AnalyzeError:
    return AnalyzeError(**WHO, attempt=attempt, error="x", idempotency_key=f"run-1:serve:1:{attempt}:analyze")


def kept_keys(link: MemoryLink) -> list[object]:
    return [record.message["idempotency_key"] for record in link.pending]


async def test_a_lost_record_waits_under_its_own_key(link: MemoryLink, caller: Caller) -> None:
    caller.answer = caller.lose

    assert await link.learn(success(), "learn") is None

    assert [record.activity for record in link.pending] == ["LearnFromExecution"]
    assert kept_keys(link) == ["run-1:serve:1:1:learn"]


async def test_a_lost_read_is_not_sent_later(link: MemoryLink, caller: Caller) -> None:
    caller.answer = caller.lose

    assert await link.recall(GetContext(**WHO), "recall") is None

    assert link.pending == []


@pytest.mark.parametrize(("seconds", "asked"), [(29.999, 1), (30.0, 2)])
async def test_a_loss_silences_memory_for_thirty_seconds(
    link: MemoryLink, caller: Caller, seconds: float, asked: int
) -> None:
    caller.answer = caller.lose
    await link.learn(success(1), "learn")
    caller.clock += timedelta(seconds=seconds)

    await link.learn(success(2), "learn")

    assert caller.calls == asked


async def test_a_record_held_back_in_silence_waits_as_well(link: MemoryLink, caller: Caller) -> None:
    caller.answer = caller.lose
    await link.learn(success(1), "learn")

    await link.learn(success(2), "learn")

    assert len(link.pending) == 2
    assert caller.calls == 1


async def test_a_probe_that_is_lost_silences_memory_again(link: MemoryLink, caller: Caller) -> None:
    caller.answer = caller.lose
    await link.learn(success(1), "learn")
    caller.clock += timedelta(seconds=30)
    await link.learn(success(2), "learn")
    caller.clock += timedelta(seconds=29)

    await link.learn(success(3), "learn")

    assert caller.calls == 2
    assert link.silent


async def test_a_probe_that_is_answered_ends_the_silence(link: MemoryLink, caller: Caller) -> None:
    caller.answer = caller.lose
    await link.learn(success(1), "learn")
    caller.clock += timedelta(seconds=30)
    caller.answer = lambda: {"event_id": "e"}

    assert await link.learn(success(2), "learn") is not None

    assert link.silent_until is None
    assert len(link.pending) == 1


async def test_only_one_call_probes(link: MemoryLink, caller: Caller) -> None:
    caller.answer = caller.lose
    await link.learn(success(1), "learn")
    caller.clock += timedelta(seconds=30)
    caller.answer, caller.gate = (lambda: {"event_id": "e"}), asyncio.Event()

    probe = asyncio.create_task(link.learn(success(2), "learn"))
    await asyncio.sleep(0)
    beside = asyncio.create_task(link.learn(success(3), "learn"))
    await asyncio.sleep(0)
    caller.gate.set()

    assert await beside is None
    assert await probe is not None
    assert caller.calls == 2
    assert kept_keys(link) == ["run-1:serve:1:1:learn", "run-1:serve:1:3:learn"]


async def test_what_is_refused_for_good_is_not_kept(link: MemoryLink, caller: Caller) -> None:
    caller.answer = caller.refuse

    assert await link.analyze(failure(), "analyse") is None

    assert (link.pending, link.refused) == ([], 1)
    assert link.last_refusal == "AnalyzeError: TooLarge: the input has 3,000,000 bytes"


async def test_a_refusal_is_an_answer_and_silences_nothing(link: MemoryLink, caller: Caller) -> None:
    caller.answer = caller.refuse
    await link.analyze(failure(1), "analyse")
    caller.answer = analysis

    assert await link.analyze(failure(2), "analyse") is not None


@pytest.mark.parametrize("answer", [None, "text", {"no": "package"}, 7])
async def test_an_answer_that_cannot_be_read_fails_nothing(link: MemoryLink, caller: Caller, answer: object) -> None:
    caller.answer = lambda: answer

    assert await link.recall(GetContext(**WHO), "recall") is None

    assert link.refused == 1
    assert not link.silent


async def test_a_record_lost_while_another_is_refused_is_kept(link: MemoryLink, caller: Caller) -> None:
    caller.gate = asyncio.Event()
    caller.answer = caller.lose
    lost = asyncio.create_task(link.learn(success(), "learn"))
    await asyncio.sleep(0)
    caller.answer = caller.refuse
    refused = asyncio.create_task(link.analyze(failure(), "analyse"))
    await asyncio.sleep(0)
    caller.gate.set()
    await asyncio.gather(lost, refused)

    assert kept_keys(link) == ["run-1:serve:1:1:learn"]


async def test_at_most_256_records_wait_and_the_rest_is_counted(link: MemoryLink, caller: Caller) -> None:
    caller.answer = caller.lose
    for attempt in range(1, MOST_PENDING + 5):
        await link.learn(success(attempt), "learn")

    assert (MOST_PENDING, len(link.pending), link.dropped) == (256, 256, 4)


async def test_the_last_record_is_kept_for_it_tells_all_attempts_again(link: MemoryLink, caller: Caller) -> None:
    caller.answer = caller.lose
    for attempt in range(1, MOST_PENDING + 1):
        await link.learn(success(attempt), "learn")

    await link.document(DocumentDecision(**WHO, kind="step_completion", decision="failed"), "document")

    assert link.pending[-1].activity == "DocumentDecision"
    assert kept_keys(link)[0] == "run-1:serve:1:2:learn"


async def test_a_package_that_says_the_journal_is_down_silences_memory(link: MemoryLink, caller: Caller) -> None:
    caller.answer = lambda: package({"attempt": 1}, tiers=[{"tier": "signatures", "status": "down"}])

    assert await link.recall(GetContext(**WHO), "recall") is not None

    assert link.silent


async def test_a_tier_that_is_down_beside_the_journal_silences_nothing(link: MemoryLink, caller: Caller) -> None:
    caller.answer = lambda: package({"attempt": 1}, tiers=[{"tier": "vault", "status": "down"}])

    await link.recall(GetContext(**WHO), "recall")

    assert not link.silent


async def test_a_record_whose_call_is_cancelled_waits_as_well(link: MemoryLink, caller: Caller) -> None:
    caller.gate = asyncio.Event()
    telling = asyncio.create_task(link.learn(success(), "learn"))
    await asyncio.sleep(0)

    telling.cancel()

    with pytest.raises(asyncio.CancelledError):
        await telling
    assert kept_keys(link) == ["run-1:serve:1:1:learn"]
