"""One step execution from its first recall to its documented end, in a scripted world."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from poimen.contracts.execution import StepReport
from poimen.contracts.vocabulary import MemoryMode
from poimen.details import step_details
from poimen.memory_link import MemoryLink, MemoryRefused
from poimen.step_loop import run_step
from poimen.step_rules import StepPolicy
from poimen.step_state import MOST_RECORDS, AttemptReport, AttemptWork
from tests.step.scripted_world import FAILED, PASSED, START, World, analysis, failures, package, run, spec

REPAIRS = StepPolicy(attempts=6, first_delay=1.0, longest_delay=10.0, repairs=("free-port", "restart"))
PREVENTION = {"repair": "free-port", "because": "the last 2 runs began with it"}


def prevents(world: World, repair: str = "free-port") -> World:
    known = {**PREVENTION, "repair": repair}
    world.answers["GetContext"] = lambda message: package(
        message, **({"prevention": known} if message["attempt"] == 1 else {})
    )
    return world


async def test_a_step_that_passes_is_recalled_learned_and_documented() -> None:
    result, _ = await run(world := failures(0))

    assert [name for name, _ in world.calls] == ["GetContext", "LearnFromExecution", "DocumentDecision"]
    assert (result.end, result.reason, result.attempts_made, result.output) == ("succeeded", "passed", 1, "done")


async def test_every_failure_is_analysed_and_every_attempt_asks_first() -> None:
    _, _ = await run(world := failures(2))

    names = [name for name, _ in world.calls]
    assert names == [*["GetContext", "AnalyzeError"] * 2, "GetContext", "LearnFromExecution", "DocumentDecision"]


async def test_without_memory_repairs_run_in_declared_order_one_a_failure_and_then_delays() -> None:
    world = failures(4).lose_memory()

    result, _ = await run(world, spec(REPAIRS))

    assert world.log == [
        "attempt 1",
        "repair free-port before 2",
        "attempt 2",
        "repair restart before 3",
        "attempt 3",
        "wait 1",
        "attempt 4",
        "wait 2",
        "attempt 5",
    ]
    assert (result.end, result.reason) == ("succeeded", "passed, attempt 5, after waiting 2 s")


async def test_memory_chooses_the_repair() -> None:
    world = failures(1).advise(analysis("repair", repair="restart"))

    result, _ = await run(world, spec(REPAIRS))

    assert world.log == ["attempt 1", "repair restart before 2", "attempt 2"]
    assert result.reason == "passed, attempt 2, after restart"


async def test_advice_may_wait_before_a_repair() -> None:
    world = failures(1).advise(analysis("repair", repair="restart", delay_seconds=4.0))

    await run(world, spec(REPAIRS))

    assert world.log == ["attempt 1", "wait 4", "repair restart before 2", "attempt 2"]
    assert world.said("LearnFromExecution")[0]["applied"]["waited_seconds"] == 4.0


async def test_what_was_really_done_is_told_with_every_outcome() -> None:
    world = failures(2, repair_exits={"restart": 3}).advise(
        analysis("repair", repair="restart"), analysis("retry_after", delay_seconds=6.0)
    )

    await run(world, spec(REPAIRS))

    applied = [message["applied"] for message in [*world.said("AnalyzeError"), *world.said("LearnFromExecution")]]
    assert [(one["kind"], one["repair"], one["waited_seconds"], one["exit_code"]) for one in applied] == [
        ("none", None, 0.0, None),
        ("repair", "restart", 0.0, 3),
        ("wait", None, 6.0, None),
    ]


async def test_the_time_since_a_signatures_first_failure_is_told() -> None:
    world = failures(2).advise(analysis("retry_after", delay_seconds=6.0))

    await run(world, spec(REPAIRS))

    applied = [message["applied"] for message in world.said("LearnFromExecution")]
    # Two waits of 6 s and the second attempt's 1 s after the first failure.
    assert [one["since_first_failure_seconds"] for one in applied] == [13.0]


async def test_a_known_repair_runs_before_the_first_attempt() -> None:
    world = prevents(failures(0))

    result, _ = await run(world, spec(REPAIRS, preventable=("free-port",)))

    assert world.log == ["repair free-port before 1", "attempt 1"]
    assert result.reason == "passed after free-port ran first"
    assert world.said("LearnFromExecution")[0]["applied"]["kind"] == "prevention"
    assert result.prevention is not None


async def test_only_what_its_author_allows_before_a_failure_prevents() -> None:
    world = prevents(failures(0), "restart")

    result, _ = await run(world, spec(REPAIRS, preventable=("free-port",)))

    assert world.log == ["attempt 1"]
    assert result.prevention is None


async def test_a_repair_that_the_step_does_not_have_prevents_nothing() -> None:
    world = prevents(failures(0), "format-disk")

    await run(world, spec(REPAIRS, preventable=("format-disk",)))

    assert world.log == ["attempt 1"]


async def test_a_repair_that_memory_names_later_prevents_nothing_any_more() -> None:
    world = failures(1).advise(analysis("repair", repair="restart"))
    world.answers["GetContext"] = lambda message: package(message, prevention=PREVENTION)

    await run(world, spec(REPAIRS, preventable=("free-port",)))

    assert world.log == ["repair free-port before 1", "attempt 1", "repair restart before 2", "attempt 2"]


async def test_memory_is_asked_to_prevent_before_the_first_attempt_only() -> None:
    world = prevents(failures(1))

    await run(world, spec(REPAIRS, preventable=("free-port",)))

    assert [message["repairs"] for message in world.said("GetContext")] == [["free-port"], []]


async def test_advice_to_stop_ends_the_step() -> None:
    world = failures(1).advise(analysis("stop", because="16 retries in 2 runs, nothing helped"))

    result, _ = await run(world, spec(REPAIRS))

    assert (result.end, result.reason) == ("stopped", "stopped: 16 retries in 2 runs, nothing helped")
    assert world.log == ["attempt 1"]


async def test_observing_records_everything_and_follows_nothing() -> None:
    world = prevents(failures(1)).advise(analysis("stop"))

    result, _ = await run(world, spec(REPAIRS, memory="observe", preventable=("free-port",)))

    assert [name for name, _ in world.calls] == ["AnalyzeError", "LearnFromExecution", "DocumentDecision"]
    assert world.log == ["attempt 1", "repair free-port before 2", "attempt 2"]
    assert result.attempts[0].advice is not None
    assert world.said("DocumentDecision")[0]["memory"] == "observe"


async def test_off_calls_nothing() -> None:
    result, _ = await run(world := failures(1), spec(REPAIRS, memory="off"))

    assert world.calls == []
    assert (result.end, world.log) == ("succeeded", ["attempt 1", "repair free-port before 2", "attempt 2"])


@pytest.mark.parametrize("memory", ["observe", "off"])
async def test_what_the_workflow_itself_knows_is_always_handed_over(memory: MemoryMode) -> None:
    await run(world := failures(1), spec(REPAIRS, memory=memory))

    assert "Step serve: attempt 2 of 6" in world.works[1].context.text


async def test_a_step_finishes_without_memory_and_keeps_its_records() -> None:
    result, memory = await run(failures(1).lose_memory(), spec(REPAIRS))

    assert result.end == "succeeded"
    assert [record.activity for record in memory.pending] == [
        "AnalyzeError",
        "LearnFromExecution",
        "DocumentDecision",
    ]
    assert result.undelivered_records == 3


async def test_the_records_of_a_step_have_keys_of_their_own() -> None:
    _, memory = await run(failures(3).lose_memory(), spec(REPAIRS))

    keys = [str(record.message["idempotency_key"]) for record in memory.pending]
    assert len(keys) == len(set(keys)) == 5
    assert keys[0] == "run-1:serve:1:1:analyze"


async def test_the_records_of_two_visits_have_keys_of_their_own() -> None:
    keys: set[object] = set()
    for visit in (1, 2):
        _, memory = await run(failures(1).lose_memory(), spec(REPAIRS, visit=visit))
        keys |= {record.message["idempotency_key"] for record in memory.pending}

    assert len(keys) == 6


async def test_reads_have_no_key() -> None:
    await run(world := failures(0))

    assert world.said("GetContext")[0]["idempotency_key"] is None


async def test_a_refused_analysis_leaves_the_policy_to_decide() -> None:
    def refuse(_message: dict[str, Any]) -> object:
        raise MemoryRefused("Conflict: the key was used for another message")

    world = failures(1)
    world.answers["AnalyzeError"] = refuse

    result, memory = await run(world, spec(REPAIRS))

    assert world.log[1] == "repair free-port before 2"
    assert (result.end, memory.pending) == ("succeeded", [])
    assert world.pages[-1].refusal.startswith("AnalyzeError: Conflict")


async def test_a_final_error_ends_the_step_at_once() -> None:
    final = AttemptReport("failed", "executor", "x", final="the command is not on the executor; not retried")

    result, _ = await run(world := World([final]))

    assert (result.end, result.reason) == ("failed", "the command is not on the executor; not retried")
    assert world.log == ["attempt 1"]


async def test_a_step_that_uses_all_its_attempts_says_so() -> None:
    result, _ = await run(failures(9).lose_memory(), spec(replace(REPAIRS, attempts=3)))

    assert (result.end, result.reason, result.attempts_made) == ("failed", "3 of 3 attempts failed", 3)


async def test_an_exhausted_budget_makes_no_attempt() -> None:
    result, _ = await run(world := failures(0), spec(replace(REPAIRS, attempts_budget=0)))

    assert (result.end, result.reason) == ("exhausted", "the run's budget of attempts is spent")
    assert [name for name, _ in world.calls] == ["DocumentDecision"]


async def test_tokens_of_all_attempts_count() -> None:
    world = World([replace(FAILED, tokens=60)])

    result, _ = await run(world, spec(replace(REPAIRS, tokens_budget=100, tokens_owner="step")))

    assert (result.end, result.tokens, result.attempts_made) == ("exhausted", 120, 2)


async def test_an_attempt_gets_the_seconds_that_are_left() -> None:
    world = failures(1, seconds_an_attempt=4.0).lose_memory()

    await run(world, spec(replace(REPAIRS, seconds_budget=10.0)))

    assert [work.seconds_left for work in world.works] == [10.0, 6.0]


async def test_a_budget_that_shrinks_while_the_step_runs_binds_it() -> None:
    class Shrinking(World):
        def bounds(self, policy: StepPolicy) -> StepPolicy:
            return replace(policy, tokens_budget=100 if self.works else 1_000)

    result, _ = await run(Shrinking([replace(FAILED, tokens=100)]), spec(REPAIRS))

    assert (result.end, result.attempts_made) == ("exhausted", 1)


async def test_a_cancelled_step_is_documented_and_stays_cancelled() -> None:
    class Cancelled(World):
        async def attempt(self, work: AttemptWork) -> AttemptReport:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await run(world := Cancelled([PASSED]))

    [decision] = world.said("DocumentDecision")
    assert (decision["end"], decision["reasoning"]) == ("cancelled", "the step was cancelled during attempt 1")


async def test_a_cancel_between_two_attempts_says_so() -> None:
    class Cancelled(World):
        async def wait(self, seconds: float, why: str) -> None:
            raise asyncio.CancelledError((seconds, why))

    with pytest.raises(asyncio.CancelledError):
        await run(world := Cancelled([FAILED]))

    assert world.said("DocumentDecision")[0]["reasoning"] == "the step was cancelled before attempt 2"


@pytest.mark.parametrize(
    ("asked", "attempts", "reports", "where"),
    [
        ("LearnFromExecution", 3, [PASSED], "after attempt 1"),
        ("AnalyzeError", 1, [FAILED], "after attempt 1"),
        ("AnalyzeError", 3, [FAILED], "after attempt 1"),
        ("GetContext", 3, [PASSED], "before attempt 1"),
    ],
)
async def test_a_cancel_while_memory_is_asked_says_after_which_attempt_it_came(
    asked: str, attempts: int, reports: list[AttemptReport], where: str
) -> None:
    def cancel(_message: dict[str, Any]) -> None:
        raise asyncio.CancelledError

    world = World(reports)
    world.answers[asked] = cancel
    with pytest.raises(asyncio.CancelledError):
        await run(world, spec(StepPolicy(attempts=attempts)))

    assert world.said("DocumentDecision")[0]["reasoning"] == f"the step was cancelled {where}"


async def test_what_was_wrong_with_what_an_attempt_left_is_on_its_record_and_its_page() -> None:
    warned = replace(PASSED, warnings=("the report was ignored: \x00 " + "x" * 400, "b", "c", "d"))

    result, _ = await run(world := World([warned]))

    warnings = world.said("DocumentDecision")[0]["attempts"][0]["warnings"]
    assert warnings == list(result.attempts[0].warnings)
    assert ([len(warning) for warning in warnings], warnings[1:]) == ([300, 1, 1], ["b", "c"])
    assert "**Warning** attempt 1: the report was ignored: " in step_details(world.pages[-1])


@pytest.mark.parametrize("attempts", [[PASSED], [FAILED]])
async def test_an_end_is_documented_once_and_told_with_its_reason(attempts: list[AttemptReport]) -> None:
    result, _ = await run(world := World(attempts))

    [decision] = world.said("DocumentDecision")
    assert (decision["end"], decision["reasoning"]) == (result.end, result.reason)
    assert decision["decision"] == f"{result.end}: {result.reason}"
    assert result.reason


async def test_a_steps_own_decision_and_lesson_are_recorded() -> None:
    report = StepReport(
        decision="keep the old port", lesson="ports are scarce", artifacts=("a.txt", "b.txt"), indexed=("b.txt",)
    )

    await run(world := World([replace(PASSED, report=report)]))

    assert world.said("DocumentDecision")[0]["decision"] == "keep the old port"
    assert world.said("LearnFromExecution")[0]["lesson"] == "ports are scarce"
    assert world.said("LearnFromExecution")[0]["artifacts"] == ["a.txt", "b.txt"]
    assert world.said("LearnFromExecution")[0]["indexed"] == ["b.txt"]


async def test_the_packages_delivered_are_named_in_the_decision() -> None:
    await run(world := failures(1), spec(REPAIRS))

    assert world.said("DocumentDecision")[0]["package_ids"] == ["ctx-1", "ctx-2"]


async def test_a_long_step_documents_its_first_and_its_latest_attempts() -> None:
    policy = StepPolicy(attempts=80, first_delay=0.0)

    result, _ = await run(World([FAILED]), spec(policy))

    numbers = [record.attempt for record in result.attempts]
    assert (len(numbers), numbers[:2], numbers[-1]) == (MOST_RECORDS, [1, 32], 80)
    assert result.attempts_made == 80


async def test_the_page_counts_what_is_left() -> None:
    await run(world := failures(1), spec(REPAIRS))

    assert [page.left.attempts for page in world.pages if page.activity == "running"] == [6, 5]
    assert world.pages[-1].end == "succeeded"


async def test_the_silence_goes_on_into_what_follows_the_step() -> None:
    world = failures(0).lose_memory()

    result = await run_step(spec(), world, MemoryLink(world))

    assert result.silent_until is not None
    assert result.silent_until > START
