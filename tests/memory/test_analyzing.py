import asyncio
import secrets
from typing import Any

import pytest

from memory.analyze import analyze
from memory.errors import Conflict, StoreUnavailable
from memory.learn import learn
from memory.stores import Stores
from poimen.contracts.memory_calls import Analysis, AnalyzeError, LearnFromExecution
from tests.fixtures_postgres import Database
from tests.memory.acted_step import PORT_TAKEN, caller
from tests.tcp_proxy import TcpProxy


def failed(error: str = PORT_TAKEN, **values: Any) -> AnalyzeError:
    given = {"scope": "acme/api", "run": "rel-1", "step": "serve", "attempts_left": 3, **values}
    return AnalyzeError(error=error, **given)


async def count(database: Database, table: str) -> int:
    return int((await database.run_sql(f"select count(*) from {table};")).strip())


async def test_the_same_call_again_gets_the_same_answer_and_changes_nothing(stores: Stores, database: Database) -> None:
    first = await analyze(failed(), caller(key="k"), stores)
    again = await analyze(failed(), caller(key="k"), stores)
    assert again.duplicate
    assert again.model_copy(update={"duplicate": False}) == first
    assert await count(database, "attempts") == 1
    assert await count(database, "journal") == 1


async def test_the_same_key_with_another_request_is_a_conflict(stores: Stores, database: Database) -> None:
    await analyze(failed(), caller(key="k"), stores)
    with pytest.raises(Conflict):
        await analyze(failed("another error"), caller(key="k"), stores)
    assert await count(database, "attempts") == 1


async def test_one_call_made_many_times_at_once_is_recorded_once(stores: Stores, database: Database) -> None:
    answers = await asyncio.gather(*(analyze(failed(), caller(key="k"), stores) for _ in range(12)))
    assert sum(not answer.duplicate for answer in answers) == 1
    assert len({answer.event_id for answer in answers}) == 1
    assert await count(database, "journal") == 1


async def test_many_runs_that_fail_alike_at_once_are_all_counted(stores: Stores) -> None:
    await asyncio.gather(*(analyze(failed(run=f"r{n}"), caller(), stores) for n in range(20)))
    last = await analyze(failed(run="last"), caller(), stores)
    assert last.seen_before is not None
    assert last.seen_before.runs == 20


async def test_a_late_second_report_of_an_attempt_changes_no_evidence(stores: Stores) -> None:
    await analyze(failed(), caller(), stores)
    await analyze(failed(), caller(), stores)
    answer = await analyze(failed(run="rel-2"), caller(), stores)
    assert answer.lessons[0].text.startswith("serve failed 1 time in 1 run")


async def test_a_second_report_of_an_attempt_with_another_error_is_answered(stores: Stores) -> None:
    await analyze(failed(), caller(), stores)
    answer = await analyze(failed("another error"), caller(), stores)
    assert (answer.seen_before, answer.advice.verdict) == (None, "retry")


@pytest.mark.parametrize("source", ["worker_lost", "cancelled", "budget", "executor"])
async def test_a_failure_of_the_harness_teaches_nothing_about_the_step(
    stores: Stores, database: Database, source: Any
) -> None:
    answer = await analyze(failed(source=source), caller(), stores)
    assert (answer.advice.verdict, answer.signature, answer.kind) == ("retry", "", source)
    assert answer.advice.because.endswith("that says nothing about serve")
    assert await count(database, "journal") == 1
    assert await count(database, "items") == 0
    after = await analyze(failed(run="rel-2"), caller(), stores)
    assert after.seen_before is None


async def test_a_time_out_is_the_steps_own_failure_whatever_it_printed(stores: Stores) -> None:
    first = await analyze(failed("compiling 14%", source="timeout"), caller(), stores)
    second = await analyze(failed("compiling 71%", source="timeout", run="rel-2"), caller(), stores)
    assert first.signature == second.signature
    assert (second.kind, second.title) == ("timeout", "time-out")
    assert second.seen_before is not None


async def test_a_service_is_waited_for_as_long_as_it_asks(stores: Stores) -> None:
    error = "HTTP 429 Too Many Requests\nRetry-After: 6"
    answer = await analyze(failed(error, longest_delay_seconds=60.0), caller(), stores)
    assert (answer.advice.verdict, answer.advice.delay_seconds) == ("retry_after", 6.0)
    assert answer.advice.because == "the service asked for 6 s"


async def test_a_wait_named_outside_the_text_wins(stores: Stores) -> None:
    error = "HTTP 429 Too Many Requests\nRetry-After: 6"
    call = failed(error, longest_delay_seconds=60.0, service_wait_seconds=9.0)
    assert (await analyze(call, caller(), stores)).advice.delay_seconds == 9.0


async def test_without_a_policy_the_caller_still_gets_advice(stores: Stores) -> None:
    answer = await analyze(AnalyzeError(scope="s", error="boom"), caller(), stores)
    assert answer.advice.verdict in {"retry", "retry_after"}
    assert answer.advice.attempts_left is None


async def test_standalone_failures_are_occurrences_of_their_own(stores: Stores) -> None:
    call = AnalyzeError(scope="s", step="serve", error=PORT_TAKEN)
    await analyze(call, caller(), stores)
    await analyze(call, caller(), stores)
    answer = await analyze(call, caller(), stores)
    assert answer.seen_before is not None
    assert answer.seen_before.occurrences == 2


async def test_another_tenant_sees_none_of_it(stores: Stores) -> None:
    await analyze(failed(), caller("local"), stores)
    answer = await analyze(failed(run="rel-2"), caller("other"), stores)
    assert answer.seen_before is None


async def test_a_secret_in_the_error_reaches_no_table(stores: Stores, database: Database) -> None:
    secret = secrets.token_hex(20)
    error = f"connect failed: postgres://app:{secret}@db.example/api password={secret}"
    call = failed(error, environment={"API_TOKEN": secret, "python": "3.11"})
    answer = await analyze(call, caller(), stores)
    assert secret not in answer.model_dump_json()
    assert any("masked" in warning for warning in answer.warnings)
    tables = (await database.run_sql("select tablename from pg_tables where schemaname = 'public';")).split()
    assert "journal" in tables
    for table in tables:
        found = await database.run_sql(f"select count(*) from {table} t where t::text like '%{secret}%';")
        assert found.strip() == "0", table


async def test_text_with_nul_and_lone_surrogates_is_stored(stores: Stores) -> None:
    answer = await analyze(failed("bad \0 byte \ud800 here: code 7"), caller(), stores)
    assert answer.signature.startswith("s2:")


async def test_an_error_of_the_largest_size_is_stored(stores: Stores, database: Database) -> None:
    answer = await analyze(failed("x" * 262_000 + "\n" + PORT_TAKEN), caller(), stores)
    assert answer.title == "address in use"
    assert await count(database, "bodies") == 1


async def test_postgres_that_refuses_is_told_at_once(proxied: Stores, proxy: TcpProxy) -> None:
    await proxy.refuse()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(analyze(failed(), caller(), proxied), 5)


async def test_a_black_hole_is_given_up_at_the_deadline(proxied: Stores, proxy: TcpProxy) -> None:
    await analyze(failed(), caller(), proxied)
    proxy.black_hole()
    impatient = caller()
    impatient = type(impatient)(impatient.tenant, impatient.provenance, 0.4)
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(analyze(failed(run="rel-2"), impatient, proxied), 5)


async def test_a_lesson_the_step_wrote_is_kept_unverified(stores: Stores) -> None:
    call = LearnFromExecution(
        scope="acme/api",
        run="rel-1",
        step="serve",
        outcome="succeeded",
        lesson="Start the proxy before the api.",
    )
    learned = await learn(call, caller(), stores)
    assert learned.learned == ("a lesson was kept, unverified",)
    answer: Analysis = await analyze(failed(run="rel-2"), caller(), stores)
    lesson = answer.lessons[0]
    assert (lesson.id, lesson.trust, lesson.origin) == (
        learned.knowledge_ids[0],
        "unverified",
        "harness_text",
    )


async def test_a_lesson_that_held_a_secret_waits_in_quarantine(stores: Stores) -> None:
    lesson = f"Log in with password={secrets.token_hex(16)} first."
    call = LearnFromExecution(scope="acme/api", step="serve", outcome="succeeded", lesson=lesson)
    learned = await learn(call, caller(), stores)
    assert "it waits for a reviewer" in " ".join(learned.warnings)
    assert (await analyze(failed(), caller(), stores)).lessons == ()


async def test_a_lesson_without_words_is_not_kept(stores: Stores) -> None:
    call = LearnFromExecution(scope="acme/api", step="serve", outcome="succeeded", lesson=" -- \n")
    learned = await learn(call, caller(), stores)
    assert learned.knowledge_ids == ()
    assert learned.warnings == ("lesson has no words; it was not kept",)


async def test_success_says_what_ended_the_failure(stores: Stores) -> None:
    await analyze(failed(), caller(), stores)
    applied = {"kind": "repair", "repair": "free-port", "since_first_failure_seconds": 2.0}
    call = LearnFromExecution.model_validate(
        {
            "scope": "acme/api",
            "run": "rel-1",
            "step": "serve",
            "attempt": 2,
            "outcome": "succeeded",
            "applied": applied,
        }
    )
    learned = await learn(call, caller(), stores)
    assert learned.learned == ("free-port ended address in use, now 1 of 1",)
