import asyncio
from dataclasses import replace

import pytest

from memory.errors import Conflict
from memory.journal import (
    Event,
    EventKind,
    Origin,
    Provenance,
    Recorded,
    describe,
    entry,
    events_of_run,
    events_of_workflow,
    events_since,
    occurrence_of,
    record,
)
from memory.journal.read import DROPPED
from memory.postgres import Pool, tenant_transaction
from poimen.contracts.memory_calls import AnalyzeError
from poimen.contracts.message import encode
from tests.fixtures_postgres import Database
from tests.journal.conftest import MakeEvent

SECONDS = 30.0


async def write(pool: Pool, event: Event, answer: dict[str, object] | None = None) -> Recorded:
    async with tenant_transaction(pool, event.tenant, deadline_seconds=SECONDS) as tx:
        return await record(tx, event, answer)


async def counts(database: Database) -> tuple[int, ...]:
    printed = await database.run_sql("select (select count(*) from journal), (select count(*) from outbox);")
    return tuple(map(int, printed.strip().split("|")))


async def test_a_thousand_calls_under_one_key_at_once_are_one_event_with_one_answer(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    answers = await asyncio.gather(*(write(pool, make_event(), {"call": number}) for number in range(1000)))
    assert await counts(database) == (1, 1)
    assert len({(answer.id, answer.position, answer.result["call"]) for answer in answers}) == 1
    assert sum(not answer.duplicate for answer in answers) == 1


async def test_a_key_used_again_for_another_request_is_a_conflict(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    await write(pool, make_event())
    with pytest.raises(Conflict):
        await write(pool, make_event(payload={"error": "another"}))
    with pytest.raises(Conflict):
        await write(pool, make_event(kind=EventKind.EXECUTION_LEARNED))
    assert await counts(database) == (1, 1)


async def test_the_same_key_of_another_tenant_is_another_event(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    await write(pool, make_event())
    assert not (await write(pool, make_event(tenant="other"))).duplicate
    assert await counts(database) == (2, 2)


async def write_beside(pool: Pool, event: Event, *, finish: bool, error: Exception | None = None) -> None:
    async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as tx, entry(tx, event) as opened:
        await tx.run("insert into environments values (%(tenant)s, 'f', '{}')")
        if finish:
            opened.finish({})
        if error is not None:
            raise error


async def test_a_block_that_raises_leaves_nothing_and_its_key_stays_free(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    with pytest.raises(LookupError):
        await write_beside(pool, make_event(), finish=True, error=LookupError())
    assert await counts(database) == (0, 0)
    assert (await database.run_sql("select count(*) from environments;")).strip() == "0"
    assert not (await write(pool, make_event())).duplicate


async def test_a_block_that_forgets_its_result_commits_nothing(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    with pytest.raises(RuntimeError, match="without a result"):
        await write_beside(pool, make_event(), finish=False)
    assert (await database.run_sql("select count(*) from environments;")).strip() == "0"


async def test_derived_rows_may_name_the_position_before_the_event_is_written(
    pool: Pool, make_event: MakeEvent
) -> None:
    async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as tx:
        async with entry(tx, make_event()) as opened:
            finished = opened.finish({})
        (stored,) = await events_of_run(tx, "rel-7")
    assert (opened.position, opened.id, opened.recorded_at) == (stored.position, stored.id, stored.recorded_at)
    assert finished.position == stored.position


async def test_an_event_of_another_tenant_than_its_transaction_is_refused(pool: Pool, make_event: MakeEvent) -> None:
    async with tenant_transaction(pool, "other", deadline_seconds=SECONDS) as tx:
        with pytest.raises(ValueError, match="another tenant"):
            await record(tx, make_event())


async def test_an_event_is_read_back_as_it_was_described(pool: Pool, make_event: MakeEvent) -> None:
    payload = {"a": [1, 2.5, None, True, {"b": "text"}], "deep": {"": "x"}}
    event = make_event(payload=payload, branch="b", step="s", visit=2, attempt=3)
    await write(pool, event, {"answer": [1]})
    async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as tx:
        (by_run,) = await events_of_run(tx, "rel-7")
        (by_workflow,) = await events_of_workflow(tx, "rel-7")
        (since,) = await events_since(tx, 0)
    assert by_run == by_workflow == since
    assert (by_run.payload, by_run.result, by_run.kind) == (payload, {"answer": [1]}, event.kind)
    assert (by_run.branch, by_run.step, by_run.visit, by_run.attempt) == ("b", "s", 2, 3)


async def test_long_parts_are_stored_once_beside_the_journal_and_put_back(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    long = "é" * 3000
    payload = {"error": long, "list": [{"a/b~c": long}], "short": "é" * 2048}
    await write(pool, make_event(payload=payload))
    stored = await database.run_sql(
        "select count(*), max(bytes) from bodies; select max(length(payload::text)) < 5000 from journal;"
    )
    assert stored.split() == ["1|6000", "t"]
    async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as tx:
        assert (await events_of_run(tx, "rel-7"))[0].payload == payload


async def test_a_body_that_retention_dropped_leaves_a_readable_event(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    await write(pool, make_event(payload={"error": "x" * 5000, "exit_code": 1}))
    await database.run_sql("delete from bodies;")
    async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as tx:
        assert (await events_of_run(tx, "rel-7"))[0].payload == {"error": DROPPED, "exit_code": 1}


async def test_a_kind_of_a_newer_version_is_read_as_its_name(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    await write(pool, make_event())
    await database.run_sql("update journal set kind = 'from_the_future';")
    async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as tx:
        assert (await events_of_run(tx, "rel-7"))[0].kind == "from_the_future"


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b", "a\x00\udfff" * 3000])
async def test_text_that_postgres_cannot_hold_is_mended_not_refused(
    text: str, pool: Pool, make_event: MakeEvent
) -> None:
    event = make_event(text, payload={"error": text, text: [text]})
    await write(pool, event, {"answer": text})
    async with tenant_transaction(pool, "local", deadline_seconds=SECONDS) as tx:
        (stored,) = await events_of_run(tx, "rel-7")
    mended = text.replace("\0", "\u2400").replace("\ud800", "\ufffd").replace("\udfff", "\ufffd")
    assert stored.payload == {"error": mended, mended: [mended]}
    assert stored.result == {"answer": mended}
    assert (await write(pool, event)).duplicate


async def test_a_long_key_is_as_good_as_a_short_one(pool: Pool, make_event: MakeEvent) -> None:
    assert not (await write(pool, make_event("k" * 5000))).duplicate
    assert (await write(pool, make_event("k" * 5000))).duplicate
    assert not (await write(pool, make_event("k" * 5001))).duplicate


async def test_the_application_can_neither_change_nor_delete_what_is_recorded(
    database: Database, pool: Pool, make_event: MakeEvent
) -> None:
    await write(pool, make_event())
    granted = await database.run_sql(
        "select privilege_type from information_schema.role_table_grants"
        " where grantee = 'poimen_app' and table_name = 'journal' order by 1;"
    )
    assert granted.split() == ["INSERT", "SELECT"]


def call(**values: object) -> AnalyzeError:
    return AnalyzeError.model_validate({"scope": "acme/api", "error": "boom", "step": "serve", **values})


def described(message: AnalyzeError) -> Event:
    provenance = Provenance(key="k", origin=Origin.CALLER, run_id="temporal-run")
    return describe(EventKind.ERROR_ANALYZED, message, encode(message), tenant="local", provenance=provenance)


def test_naming_the_default_tenant_or_a_key_does_not_make_another_request() -> None:
    plain = described(call())
    assert described(call(tenant="local", idempotency_key="mine")).request_hash == plain.request_hash
    assert described(call(attempt=2)).request_hash != plain.request_hash


def test_a_call_without_a_run_belongs_to_the_run_of_its_workflow() -> None:
    assert described(call()).run == "temporal-run"
    assert described(call(run="mine")).run == "mine"


def test_an_occurrence_is_named_by_its_id_or_its_step_execution_or_its_key() -> None:
    foreign = Provenance(key="k", origin=Origin.CALLER, run_id="temporal-run")
    alone = replace(foreign, run_id=None)
    assert occurrence_of(call(occurrence_id="alert-1", run="r"), foreign) == "alert-1"
    assert occurrence_of(call(run="r", branch="b", visit=2), foreign) == "r/b/serve/2"
    assert occurrence_of(call(), foreign) == "temporal-run//serve/1"
    assert occurrence_of(call(), alone) == "k//serve/1"


def test_occurrences_of_names_with_slashes_stay_apart() -> None:
    provenance = Provenance(key="k", origin=Origin.CALLER)
    one = occurrence_of(call(run="a/b", branch="c"), provenance)
    assert one != occurrence_of(call(run="a", branch="b/c"), provenance)


def test_an_occurrence_of_very_long_names_is_short() -> None:
    longest = occurrence_of(
        call(run="\U0001f600" * 128, branch="\U0001f600" * 128), Provenance(key="k", origin=Origin.CALLER)
    )
    assert len(longest) < 100
