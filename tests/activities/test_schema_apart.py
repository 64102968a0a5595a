"""A database that is not of this program's version refuses for now: what was to be recorded is recorded later."""

from datetime import timedelta

import pytest
from temporalio.exceptions import ApplicationError

from tests.activities.conftest import Call
from tests.fixtures_postgres import Database

RECORDS = {
    "AnalyzeError": {"scope": "acme/api", "step": "serve", "error": "OSError: [Errno 98] Address already in use"},
    "LearnFromExecution": {"scope": "acme/api", "step": "serve", "outcome": "succeeded"},
    "DocumentDecision": {"scope": "acme/api", "kind": "gate", "decision": "passed"},
}
APART = {
    "a grant is missing": (
        "revoke insert on journal from poimen_app;",
        "grant insert on journal to poimen_app;",
    ),
    "a column is missing": (
        "alter table journal rename column principal to principal_then;",
        "alter table journal rename column principal_then to principal;",
    ),
    "a column is new": (
        "alter table journal add column shard text not null;",
        "alter table journal drop column shard;",
    ),
    "a table is missing": ("alter table outbox rename to outbox_then;", "alter table outbox_then rename to outbox;"),
    "a constraint is new": (
        "alter table journal add constraint later check (scope = 'x');",
        "alter table journal drop constraint later;",
    ),
}


@pytest.mark.parametrize("apart", APART)
@pytest.mark.parametrize("name", RECORDS)
async def test_a_record_waits_for_the_schema_and_is_then_recorded(
    call: Call, database: Database, name: str, apart: str
) -> None:
    breaks, mends = APART[apart]
    await database.run_sql(breaks)
    with pytest.raises(ApplicationError) as caught:
        await call(name, {**RECORDS[name], "idempotency_key": "k"})
    assert (caught.value.type, caught.value.non_retryable) == ("SchemaDiffers", False)
    assert caught.value.next_retry_delay == timedelta(seconds=30)
    await database.run_sql(mends)
    assert not (await call(name, {**RECORDS[name], "idempotency_key": "k"}))["duplicate"]
    assert (await database.run_sql("select key from journal;")).strip() == "k"
