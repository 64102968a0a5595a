import asyncio
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.boundary import public_name
from activities.table import Entry
from memory.errors import SchemaDiffers
from memory.stores import Caller, Stores
from memory.vectors.opensearch_cluster import IndexGone
from poimen.contracts.memory_calls import HealthCheck, HealthReport
from tests.activities.conftest import Call, caller_of
from tests.fixtures_postgres import Database

FAILED = {"scope": "acme/api", "step": "serve", "error": "OSError: [Errno 98] Address already in use"}
LEARNED = {"scope": "acme/api", "step": "serve", "outcome": "succeeded"}
DECIDED = {"scope": "acme/api", "kind": "gate", "decision": "passed"}
WANTED = {"scope": "acme/api", "step": "serve", "deadline_ms": 20_000}
SEARCHED = {"scope": "acme/api", "query": "port", "deadline_ms": 20_000}
RETIRED = {"scope": "acme/api", "id": "les-00000000"}
VALID = {
    "GetContext": WANTED,
    "LearnFromExecution": LEARNED,
    "AnalyzeError": FAILED,
    "DocumentDecision": DECIDED,
    "SearchKnowledge": SEARCHED,
    "RetireKnowledge": RETIRED,
}


async def refused(call: Call, name: str, *value: Any, **info: Any) -> ApplicationError:
    with pytest.raises(ApplicationError) as caught:
        await call(name, *value, **info)
    return caught.value


async def stored(database: Database) -> str:
    return (
        await database.run_sql(
            "select (select count(*) from journal) + (select count(*) from attempts)"
            " + (select count(*) from items) + (select count(*) from receipts);"
        )
    ).strip()


ODD = [
    ({"scope": ""}, "scope is empty; give 1 to 256 characters."),
    ({"scope": "x" * 257}, "scope has 257 characters; at most 256."),
    ({"scope": "acm\0"}, "scope contains U+0000 at character 4."),
    ({"scope": 7}, "scope is a number; text is needed."),
    ({"step": ["serve"]}, "step is a list; text is needed."),
    ({"attempt": 0}, "attempt is too small; at least 1 is needed."),
    ({"attempt": "1"}, "attempt is text; a whole number is needed."),
    ({"attempt": True}, "attempt is true; a whole number is needed."),
    ({"tenant": "a\nb"}, "tenant contains U+000A at character 2."),
]


@pytest.mark.parametrize("name", VALID)
async def test_odd_input_is_refused_for_good_with_a_sentence_and_stores_nothing(
    call: Call, database: Database, name: str
) -> None:
    for change, sentence in ODD:
        error = await refused(call, name, {**VALID[name], **change})
        assert (error.message, error.type, error.non_retryable) == (sentence, "InvalidInput", True)
    assert await stored(database) == "0"


BROKEN = [
    (b"", "it got none"),
    (b"null", "one JSON object"),
    (b"[]", "one JSON object"),
    (b'"text"', "one JSON object"),
    (b"{", "JSON"),
    (b'{"scope": "s", "error": "e", "attempts_left": NaN}', ""),
    (b'{"scope": "s", "error": "e", "next_delay_seconds": 1e999}', ""),
    (b'{"scope": "s", "error": "e", "attempts_left": ' + b"9" * 5_000 + b"}", ""),
    (b'{"scope": "s", "error": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", ""),
    (b'\xff\xfe{"scope"', ""),
]


async def test_broken_json_is_refused_for_good(call: Call, database: Database) -> None:
    for data, words in BROKEN:
        error = await refused(call, "AnalyzeError", data)
        assert (error.type, error.non_retryable) == ("InvalidInput", True), data[:60]
        assert words in error.message
    assert await stored(database) == "0"


async def test_no_input_at_all_is_refused_for_good(call: Call) -> None:
    error = await refused(call, "AnalyzeError")
    assert error.message == 'AnalyzeError needs one JSON object with "scope", "error"; it got none.'
    assert error.__cause__ is None


async def test_free_text_is_never_refused_for_its_bytes(call: Call) -> None:
    answer = await call("AnalyzeError", b'{"scope": "s", "step": "x", "error": "bad \\u0000 \\ud800 byte"}')
    assert answer["signature"].startswith("s2:")
    assert any("U+2400" in warning for warning in answer["warnings"])
    assert any("U+FFFD" in warning for warning in answer["warnings"])


async def test_text_over_its_limit_is_refused_with_the_limit(call: Call, database: Database) -> None:
    error = await refused(call, "AnalyzeError", {**FAILED, "error": "x" * 262_145})
    assert error.type == "InvalidInput"
    assert "262,144" in error.message
    assert await stored(database) == "0"


async def test_an_unknown_field_is_ignored_and_named(call: Call) -> None:
    answer = await call("AnalyzeError", {**FAILED, "eror": 1})
    assert answer["warnings"] == ['unknown field "eror" ignored']


async def test_the_tenant_is_filled_in_and_another_is_refused(call: Call, database: Database) -> None:
    await call("AnalyzeError", FAILED)
    assert (await database.run_sql("select distinct tenant from journal;")).strip() == "local"
    error = await refused(call, "AnalyzeError", {**FAILED, "tenant": "somebody"})
    assert (error.type, error.non_retryable) == ("TenantRefused", True)


async def test_the_librarys_scope_is_read_and_never_written(call: Call, database: Database) -> None:
    await call("GetContext", {**WANTED, "scope": "@library"})
    error = await refused(call, "LearnFromExecution", {**LEARNED, "scope": "@library"})
    assert (error.type, error.non_retryable) == ("Rejected", True)
    assert (await database.run_sql("select count(*) from attempts;")).strip() == "0"


async def test_a_call_of_a_workflow_is_recorded_once_for_its_activity(call: Call, database: Database) -> None:
    first = await call("AnalyzeError", FAILED, activity_id="5", workflow_run_id="r-1")
    again = await call("AnalyzeError", FAILED, activity_id="5", workflow_run_id="r-1", attempt=2)
    assert (again["duplicate"], again["event_id"]) == (True, first["event_id"])
    assert not (await call("AnalyzeError", FAILED, activity_id="6", workflow_run_id="r-1"))["duplicate"]
    keys = (await database.run_sql("select key from journal order by position;")).split()
    assert keys == ["r-1:5", "r-1:6"]


async def test_a_standalone_call_is_recorded_once_for_its_run(call: Call, database: Database) -> None:
    alone = {"workflow_id": None, "workflow_run_id": None, "workflow_type": None}
    await call("AnalyzeError", FAILED, activity_run_id="a-1", **alone)
    assert (await call("AnalyzeError", FAILED, activity_run_id="a-1", **alone))["duplicate"]
    assert not (await call("AnalyzeError", FAILED, activity_run_id="a-2", **alone))["duplicate"]
    origins = await database.run_sql("select distinct origin from journal;")
    assert origins.strip() == "caller"


async def test_the_callers_key_wins_and_with_another_body_it_is_a_conflict(call: Call) -> None:
    await call("AnalyzeError", {**FAILED, "idempotency_key": "mine"}, activity_id="1")
    again = await call("AnalyzeError", {**FAILED, "idempotency_key": "mine"}, activity_id="2")
    assert again["duplicate"]
    error = await refused(call, "AnalyzeError", {**FAILED, "error": "other", "idempotency_key": "mine"})
    assert (error.type, error.non_retryable) == ("Conflict", True)


async def test_origin_is_set_by_the_entry_and_never_by_the_message(call: Call, database: Database) -> None:
    await call("AnalyzeError", {**FAILED, "origin": "reviewer"}, workflow_type="HarnessStep")
    assert (await database.run_sql("select origin from journal;")).strip() == "harness_outcome"


async def test_a_record_delivered_later_names_the_workflow_that_made_it(call: Call, database: Database) -> None:
    await call("DocumentDecision", DECIDED, workflow_type="DeliverRecords", workflow_id="rel-7/records/uuid/1")
    assert (await database.run_sql("select workflow_id from journal;")).strip() == "rel-7"


async def test_a_workflow_id_may_look_like_a_deliverers(call: Call, database: Database) -> None:
    made = "team/records/rel-7"
    await call("DocumentDecision", DECIDED, workflow_type="DeliverRecords", workflow_id=f"{made}/records/uuid/1")
    await call("DocumentDecision", DECIDED, workflow_type="DeliverRecords", workflow_id="started by hand")
    told = (await database.run_sql("select workflow_id from journal order by position;")).splitlines()
    assert told == [made, "started by hand"]


async def test_an_item_that_is_not_there_is_final(call: Call) -> None:
    error = await refused(call, "RetireKnowledge", RETIRED)
    assert (error.type, error.non_retryable) == ("NotFound", True)
    assert error.message == "les-00000000 is not on record."


async def test_an_actual_revision_is_in_the_details(call: Call) -> None:
    told = await call("LearnFromExecution", {**LEARNED, "lesson": "Start the proxy first."})
    retired = {"scope": "acme/api", "id": told["knowledge_ids"][0], "expected_revision": 3}
    error = await refused(call, "RetireKnowledge", retired)
    assert error.type == "Conflict"
    assert list(error.details) == [{"actual_revision": 1}]


async def test_an_activity_with_no_time_left_ends_before_the_server_gives_it_up(call: Call) -> None:
    little = {"start_to_close_timeout": timedelta(seconds=0.2)}
    answer = await asyncio.wait_for(call("GetContext", WANTED, **little), 10)
    assert {report["status"] for report in answer["tiers"]} <= {"late", "answered", "down"}


@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(0), timedelta(hours=-1)], ids=str)
async def test_the_time_that_is_left_does_not_hang_on_this_machines_clock(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, ahead: timedelta
) -> None:
    deadlines: list[float] = []

    async def noted(_: HealthCheck, caller: Caller, __: Stores) -> HealthReport:
        deadlines.append(caller.deadline_seconds)
        return HealthReport(tiers=())

    entry = Entry("HealthCheck", HealthCheck, noted, 60.0, writes=False)
    monkeypatch.setattr("activities.boundary.TABLE", (entry,))
    started = datetime.now(UTC) - ahead
    waited = {"scheduled_time": started - timedelta(seconds=40), "schedule_to_close_timeout": timedelta(seconds=60)}
    await caller_of(stores)("HealthCheck", started_time=started, start_to_close_timeout=timedelta(seconds=30), **waited)
    assert 10 < deadlines[0] < 20


SCRIPTS = {"CJK": (0x4E00, 0x9FFF), "four bytes a character": (0x20000, 0x2A6DF)}


def text_of(script: str, length: int) -> str:
    """Text that does not compress."""
    draw = random.Random(f"{script} {length}")
    return "".join(chr(draw.randint(*SCRIPTS[script])) for _ in range(length))


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("field", ["run", "occurrence_id"])
async def test_the_longest_names_of_every_script_are_recorded_once(call: Call, script: str, field: str) -> None:
    place = {
        field: text_of(script, 1_000),
        "scope": text_of(script, 256),
        **{name: text_of(script, 128) for name in ("step", "branch", "phase", "tool")},
        "idempotency_key": text_of(script, 999),
    }
    failed = {**place, "error": FAILED["error"]}
    first = await call("AnalyzeError", failed)
    assert (await call("AnalyzeError", failed))["event_id"] == first["event_id"]
    learned = {**place, "outcome": "succeeded", "attempt": 2, "idempotency_key": "2", "lesson": text_of(script, 8_192)}
    assert (await call("LearnFromExecution", learned))["learned"]
    decided = {**place, **DECIDED, "scope": place["scope"], "kind": "step_completion", "end": "succeeded"}
    attempts = [{"attempt": 1, "outcome": "failed", "source": "step"}]
    assert await call("DocumentDecision", {**decided, "idempotency_key": "3", "attempts": attempts})
    package = await call("GetContext", {**place, "attempt": 3, "deadline_ms": 20_000})
    assert [one["signature"] for one in package["earlier_attempts"]] == [first["signature"], None]
    assert not [warning for warning in package["warnings"] if "receipt" in warning]


async def test_a_store_that_is_down_is_told_with_when_to_ask_again(call_down: Call) -> None:
    error = await refused(call_down, "AnalyzeError", FAILED)
    assert (error.type, error.non_retryable) == ("StoreUnavailable", False)
    assert error.next_retry_delay is not None
    assert "127.0.0.1" not in error.message


async def test_without_a_store_context_is_still_delivered(call_down: Call) -> None:
    answer = await call_down("GetContext", {**WANTED, "deadline_ms": 2_000})
    assert [report["status"] for report in answer["tiers"]][2] == "answered"
    assert answer["empty_reason"] in {"tier_down", "deadline"}


async def test_an_error_nobody_foresaw_shows_none_of_its_text(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("content")

    monkeypatch.setattr("activities.boundary._caller", broken)
    error = await refused(call, "HealthCheck")
    assert (error.type, error.non_retryable) == ("InternalError", False)
    assert error.message == "HealthCheck failed unexpectedly (KeyError); the worker's log has more."
    assert error.next_retry_delay == timedelta(seconds=30)


async def test_health_asks_for_nothing(call: Call) -> None:
    answer = await call("HealthCheck")
    assert [tier["tier"] for tier in answer["tiers"]] == ["signatures", "vectors", "vault"]
    assert (await call("HealthCheck", {"colour": "red"}))["warnings"] == ['unknown field "colour" ignored']


@pytest.mark.parametrize("name", [name for name in VALID if name != "RetireKnowledge"])
async def test_every_answer_is_a_plain_json_object(call: Call, name: str) -> None:
    answer = await call(name, VALID[name])
    assert isinstance(answer, dict)
    assert "warnings" in answer


def test_an_error_is_named_as_callers_know_it() -> None:
    assert public_name(IndexGone("gone")) == "StoreUnavailable"
    assert public_name(SchemaDiffers("another version")) == "SchemaDiffers"
