"""Stores that a test can kill, and a record of many events to be projected meanwhile."""

import contextlib
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from memory.postgres.migrate import migrate
from worker.stack.child import on_free_ports
from worker.stack.postgres import RunningPostgres, postgres_server
from worker.stack.state import choose_ports

# Items that were made, and of every tenth one that was retired afterwards; each by an event that has still to be told.
RECORD = """
begin;
create temporary table made as
select n, 'les-' || md5('chaos ' || n) as id, 'acme/' || n % 7 as scope, nextval('journal_position_seq') as position,
  n > {items} as retires, clock_timestamp() as at
from (select n from generate_series(1, {items}) n union all
      select {items} + n from generate_series(1, {items}) n where n % 10 = 0) as numbers
order by n;
update made set id = 'les-' || md5('chaos ' || n - {items}), scope = 'acme/' || (n - {items}) % 7 where retires;
insert into journal (position, tenant, scope, kind, key, request_hash, recorded_at, origin, payload, result)
overriding system value
select position, '{tenant}', scope, case when retires then 'knowledge_retired' else 'execution_learned' end,
  'chaos ' || n, sha256(convert_to('chaos ' || n, 'UTF8')), at, 'caller', '{{}}',
  jsonb_build_object('items', jsonb_build_array(id))
from made;
insert into items (tenant, id, scope, kind, level, state, title, text, origin, trust, created_at, updated_at,
  created_position, retired_position, version)
select '{tenant}', made.id, made.scope, 'lesson', 'L1', case when gone.id is null then 'active' else 'retired' end,
  'lesson ' || made.n, 'free port ' || made.n || ' before step ' || made.n % 50, 'caller', 'observed', made.at, made.at,
  made.position, gone.position, greatest(made.position, gone.position)
from made left join made as gone on gone.retires and gone.id = made.id
where not made.retires;
insert into outbox (tenant, position) select '{tenant}', position from made;
commit;
analyze;
"""


@dataclass
class KillablePostgres:
    """A durable server of the test's own, on one port for good."""

    folder: Path
    port: int
    server: RunningPostgres
    stack: contextlib.AsyncExitStack

    @property
    def app_dsn(self) -> str:
        return self.server.app_dsn

    async def sql(self, script: str) -> str:
        return (await self.server.run_sql(script, self.server.dsn("postgres"))).strip()

    async def kill(self) -> None:
        """End the server as a lost machine does, and start it again."""
        os.kill(int((self.folder / "data" / "postmaster.pid").read_text().split("\n", 1)[0]), signal.SIGKILL)
        await self.stack.aclose()
        self.server = await self.stack.enter_async_context(_server(self.folder, self.port))


@contextlib.asynccontextmanager
async def killable_postgres(folder: Path) -> AsyncIterator[KillablePostgres]:
    """Run a migrated server for the length of a block."""
    async with contextlib.AsyncExitStack() as stack:
        chosen: list[int] = []

        def choose() -> int:
            chosen[:] = [choose_ports(["postgres"])["postgres"]]
            return chosen[0]

        server = await stack.enter_async_context(on_free_ports(choose, lambda port: _server(folder, port)))
        await migrate(server.owner_dsn)
        yield KillablePostgres(folder, chosen[0], server, stack)


def _server(folder: Path, port: int) -> contextlib.AbstractAsyncContextManager[RunningPostgres]:
    return postgres_server(folder, port=port, log=folder.with_suffix(".log"))
