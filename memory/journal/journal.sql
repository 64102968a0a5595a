-- name: reserve
-- Waits until no other transaction records under the same key, and draws the place of the event that may follow, so
-- that derived rows can name it first. A hash collision only waits in vain, and a place that is not used is a gap.
select pg_advisory_xact_lock(hashtextextended(%(key)s, hashtextextended(%(tenant)s, 0))),
  nextval('journal_position_seq') as position, uuidv7()::text as id, clock_timestamp() as recorded_at

-- name: find_event
-- The event recorded under one key. A statement of its own: its snapshot must be younger than the wait for the others.
select position, id::text as id, request_hash, result, recorded_at
from journal where tenant = %(tenant)s and key = %(key)s

-- name: insert_event
-- Appends the event and tells the followers, in one statement.
with event as (
  insert into journal (
    position, tenant, scope, id, kind, key, request_hash, recorded_at, occurred_at, trace_id, workflow_id, run_id,
    run, branch, step, visit, attempt, principal, origin, payload, body_parts, result
  ) overriding system value values (
    %(position)s, %(tenant)s, %(scope)s, %(id)s, %(kind)s, %(key)s, %(request_hash)s, %(recorded_at)s,
    %(occurred_at)s, %(trace_id)s, %(workflow_id)s, %(run_id)s, %(run)s, %(branch)s, %(step)s, %(visit)s,
    %(attempt)s, %(principal)s, %(origin)s, %(payload)s, %(body_parts)s, %(result)s
  )
)
insert into outbox (tenant, position) values (%(tenant)s, %(position)s)

-- name: keep_body
-- Stores a long part of a payload once.
insert into bodies (tenant, sha256, bytes, text) values (%(tenant)s, %(sha256)s, %(bytes)s, %(text)s)
on conflict do nothing

-- name: read_bodies
-- The long parts of some payloads.
select sha256, text from bodies where tenant = %(tenant)s and sha256 = any(%(hashes)s)

-- name: events_of_run
-- What was recorded of one run, in order.
select * from journal where tenant = %(tenant)s and run = %(run)s order by position limit %(limit)s

-- name: events_of_workflow
-- What was recorded from one workflow id, over all its executions, in order.
select * from journal where tenant = %(tenant)s and workflow_id = %(workflow_id)s order by position limit %(limit)s

-- name: events_since
-- The next events after a position, for a full replay; a running follower reads the outbox instead.
select * from journal where tenant = %(tenant)s and position > %(position)s order by position limit %(limit)s

-- name: events_at
-- The events at some positions, in order.
select * from journal where tenant = %(tenant)s and position = any(%(positions)s) order by position
