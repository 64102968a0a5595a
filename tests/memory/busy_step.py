"""A step that fails in many ways one after another, very often, in the rows that its reports would have left."""

from memory.items import lesson_id
from tests.fixtures_postgres import Database

SCOPE, STEP = "acme/api", "busy"

_LESSON = """
insert into items (
  tenant, id, scope, kind, level, title, text, origin, trust, step, signature, created_at, updated_at, created_position
) values ('local', '{lesson}', '{scope}', 'lesson', 'L1', 'failure {kind}', 'failure {kind}', 'harness_outcome',
  'observed', '{step}', 's1:{kind}', now(), now(), 1);
"""
_ATTEMPTS = """
insert into attempts (
  tenant, scope, step, occurrence, attempt, run, outcome, source, signature, environment, action, waited_seconds,
  since_first_failure_seconds, position, recorded_at
)
select 'local', '{scope}', '{step}', 'run-' || run, attempt, 'run-' || run, 'failed', 'step',
  's1:' || attempt % {kinds}, '', case attempt when 1 then 'none' else 'wait' end, attempt, attempt,
  run * {attempts} + attempt, now()
from generate_series(1, {runs}) as run, generate_series(1, {attempts}) as attempt;
"""


async def fill_busy_step(database: Database, *, kinds: int, runs: int, attempts: int) -> None:
    """Let the step fail in so many kinds of ways, in turn, at each of the attempts of each run."""
    lessons = (
        _LESSON.format(lesson=lesson_id(SCOPE, STEP, f"s1:{kind}"), scope=SCOPE, step=STEP, kind=kind)
        for kind in range(kinds)
    )
    tried = _ATTEMPTS.format(scope=SCOPE, step=STEP, kinds=kinds, runs=runs, attempts=attempts)
    await database.run_sql("".join(lessons) + tried + "analyze;")
