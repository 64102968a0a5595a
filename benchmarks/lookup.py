"""Measure what a memory call costs in a table of a thousand signatures and in one of a million.

`python -m benchmarks.lookup --rows 1000000 --json`; each cost is a ratio to an empty transaction of the same table.
"""

import argparse
import asyncio
import contextlib
import json
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from benchmarks.costs import in_turn, ratio
from benchmarks.stores import fresh_stores
from memory.analyze import analyze
from memory.journal import Origin, Provenance
from memory.postgres import tenant_transaction
from memory.recall import recall
from memory.stores import Caller, Stores
from poimen.contracts.memory_calls import AnalyzeError, GetContext

FEW: Final = 1_000
MANY: Final = 1_000_000
DEADLINE_SECONDS: Final = 60.0

# A scope has a thousand signatures in twenty steps: a memory grows by projects, and each of them stays what it is.
_FILL: Final = """
create temp table grown as
select n, 'scope-' || n / 1000 as scope, 'step-' || n % 20 as step, 's1:' || md5(n::text) as signature,
  'les-' || md5('item' || n) as item, 'run-' || n / 20 as run, now() as at
from generate_series({first}, {last}) as n;

insert into signatures (tenant, scope, signature, kind, family, title, template, sample, first_position, first_at)
select 'local', scope, signature, 'exception', 'f' || n % 997, 'failure ' || n, 'failure <n>', 'failure ' || n, n, at
from grown;

insert into items (
  tenant, id, scope, kind, level, title, text, origin, trust, step, signature, created_at, updated_at, created_position
)
select 'local', item, scope, 'lesson', 'L1', 'failure ' || n, 'failure ' || n, 'harness_outcome', 'observed', step,
  signature, at, at, n
from grown;

insert into attempts (
  tenant, scope, step, occurrence, attempt, run, outcome, source, signature, action, repair, position, recorded_at
)
select 'local', scope, step, run || '/' || step, attempt, run, case attempt when 1 then 'failed' else 'succeeded' end,
  'step', case attempt when 1 then signature end, case attempt when 1 then 'none' else 'repair' end,
  case attempt when 1 then null else 'mend' end, n * 2 + attempt, at
from grown, generate_series(1, 2) as attempt;

insert into aliases (tenant, scope, signature, stands_for, root, origin, position, made_at)
select 'local', scope, 's1:' || md5('old' || n), signature, signature, 'operator', n, at from grown;

insert into step_outcomes (
  tenant, scope, step, run, visit, environment, first_signature, ended, position, recorded_at
)
select 'local', scope, step, run, 1, '', signature, 'succeeded', n, at from grown;

insert into receipts (tenant, package_id, scope, run, step, visit, attempt, item_ids)
select 'local', 'ctx-' || n, scope, run, step, 1, 2, array[item] from grown;

insert into index_generations (tenant, number, state, embedder, dimension)
values ('local', 1, 'live', '', 0)
on conflict do nothing;

insert into index_corpora (tenant, generation, scope) select distinct 'local', 1, scope from grown
on conflict do nothing;

insert into index_documents (
  tenant, corpus, id, document, kind, level, state, recorded_at, length, version, digest, terms, frequencies
)
select 'local', corpus, item, n, 'lesson', 'L1', 'active', at, 3, n, sha256('x'),
  array['failur', 'w' || n % 251, 'n' || n], '{{1,1,1}}'
from grown join index_corpora using (scope) where tenant = 'local';

insert into index_postings as posting (tenant, corpus, term, block, entries)
select 'local', corpus, term, n / 256, string_agg(int4send(n) || int2send(1::smallint) || int2send(3::smallint), '')
from grown join index_corpora using (scope), unnest(array['failur', 'w' || n % 251, 'n' || n]) as term
where tenant = 'local'
group by corpus, term, n / 256
on conflict (tenant, corpus, term, block) do update set entries = posting.entries || excluded.entries;

update index_corpora
set documents = counted.documents, total_length = 3 * counted.documents, issued = {last}
from (select corpus, count(*) as documents from index_documents where tenant = 'local' group by corpus) as counted
where tenant = 'local' and index_corpora.corpus = counted.corpus;

insert into journal (
  tenant, scope, kind, key, request_hash, workflow_id, run_id, run, step, origin, payload, result
)
select 'local', scope, 'decision_documented', 'grown-' || n, sha256('x'), run, run, run, step, 'harness_outcome',
  jsonb_build_object('scope', scope, 'kind', 'gate', 'decision', 'passed'), '{{}}'
from grown;

drop table grown;
"""
CALLS: Final = ("AnalyzeError", "GetContext")
# A script must end within a minute.
AT_ONCE: Final = 50_000


def fill(rows: int) -> Iterator[str]:
    """Give the scripts that make a database hold so many signatures of the tenant `local`, and what belongs to them."""
    for first in range(0, rows, AT_ONCE):
        yield _FILL.format(first=first, last=min(first + AT_ONCE, rows) - 1)
    yield "analyze;"


async def measure(rows: int, times: int = 100) -> dict[str, Any]:
    """Give what AnalyzeError and GetContext cost at a thousand signatures and at `rows`, and how that grew.

    Both tables are asked in turn, so that a busy moment of the machine falls on both.
    """
    sizes = list(dict.fromkeys((FEW, rows)))
    async with contextlib.AsyncExitStack() as parts:
        calls: dict[str, Callable[[], Awaitable[None]]] = {}
        for size in sizes:
            calls |= _calls(size, await parts.enter_async_context(fresh_stores(fill(size))))
        await in_turn(calls, 10)  # connections, plans and pages as they are after a while
        took = await in_turn(calls, times)
    found = {
        str(size): {name: ratio(took[f"{name} {size}"], took[f"empty {size}"]) for name in CALLS} for size in sizes
    }
    few, many = found[str(FEW)], found[str(rows)]
    return {
        "signatures": found,
        "grown": {name: round(many[name]["median_ms"] / few[name]["median_ms"], 2) for name in CALLS},
    }


def _calls(size: int, stores: Stores) -> dict[str, Callable[[], Awaitable[None]]]:
    return {
        f"empty {size}": lambda: _empty(stores),
        f"AnalyzeError {size}": lambda: _analyze(stores),
        f"GetContext {size}": lambda: _recall(stores),
    }


async def _empty(stores: Stores) -> None:
    async with tenant_transaction(stores.pool, "local", deadline_seconds=DEADLINE_SECONDS) as tx:
        await tx.rows("select 1 as one")


async def _analyze(stores: Stores) -> None:
    await analyze(AnalyzeError(scope="scope-0", step="step-1", error="ValueError: no key"), _caller(), stores)


async def _recall(stores: Stores) -> None:
    call = GetContext(scope="scope-0", step="step-1", task="mend failure w17", deadline_ms=60_000)
    await recall(call, _caller(), stores)


def _caller() -> Caller:
    run = uuid.uuid4().hex
    return Caller("local", Provenance(key=run, origin=Origin.CALLER, run_id=run), DEADLINE_SECONDS)


def main() -> int:
    """Read the command line and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=MANY, help="signatures in the large table")
    parser.add_argument("--times", type=int, default=100, help="how often each call is measured")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    asked = parser.parse_args()
    found = asyncio.run(measure(asked.rows, asked.times))
    if asked.json:
        print(json.dumps(found, indent=1))
        return 0
    for size, calls in found["signatures"].items():
        for name, cost in calls.items():
            print(f"{int(size):>9,} signatures: {name} {cost['ratio']} × an empty transaction ({cost['median_ms']} ms)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
