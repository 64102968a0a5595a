-- name: take_lease
-- Registers the follower if need be, and takes or renews its lease; no row when another holder has it.
insert into followers as f (tenant, name, generation, holder, lease_until)
values (%(tenant)s, %(name)s, 1, %(holder)s, clock_timestamp() + %(lease)s)
on conflict (tenant, name) do update
set holder = %(holder)s,
    lease_until = clock_timestamp() + %(lease)s,
    generation = f.generation + (f.holder is distinct from %(holder)s or f.lease_until < clock_timestamp())::int
where f.holder is null or f.holder = %(holder)s or f.lease_until < clock_timestamp()
returning generation, cursor_tx, cursor_position

-- name: read_batch
-- The next rows, in an order that no running transaction can still get ahead of.
select tx, position from outbox
where tenant = %(tenant)s
  and (tx, position) > (%(cursor_tx)s::xid8, %(cursor_position)s)
  and tx < pg_snapshot_xmin(pg_current_snapshot())
order by tx, position
limit %(limit)s

-- name: move_cursor
-- Moves the cursor, unless the lease has gone to another holder since.
update followers
set cursor_tx = %(cursor_tx)s::xid8, cursor_position = %(cursor_position)s, lease_until = clock_timestamp() + %(lease)s
where tenant = %(tenant)s and name = %(name)s and generation = %(generation)s

-- name: renew_lease
-- Prolongs the lease, unless it has gone to another holder since.
update followers set lease_until = clock_timestamp() + %(lease)s
where tenant = %(tenant)s and name = %(name)s and generation = %(generation)s

-- name: slowest
-- The cursor that every follower has reached.
select cursor_tx, cursor_position from followers where tenant = %(tenant)s order by cursor_tx, cursor_position limit 1

-- name: trim_outbox
-- Drops the rows that every follower has passed. Takes the cursor as values: a subquery here would not use the index.
delete from outbox
where tenant = %(tenant)s and (tx, position) <= (%(cursor_tx)s::xid8, %(cursor_position)s)

-- name: park
-- Sets aside an event that could not be applied, so that it does not block the others.
insert into dead_letters (tenant, follower, position, tries, error)
values (%(tenant)s, %(name)s, %(position)s, %(tries)s, %(error)s)
on conflict (tenant, follower, position) do update set tries = dead_letters.tries + excluded.tries,
  error = excluded.error, parked_at = clock_timestamp()

-- name: parked
-- The positions that were parked, or tried again, longest ago.
select position from dead_letters
where tenant = %(tenant)s and follower = %(name)s and parked_at <= clock_timestamp() - %(ago)s
order by parked_at, position
limit %(limit)s

-- name: unpark
-- Forgets that some positions could not be applied.
delete from dead_letters
where tenant = %(tenant)s and follower = %(name)s and position = any(%(positions)s)

-- name: give_lease_back
-- Ends the lease, so that the next holder need not wait for it to expire.
update followers set holder = null, lease_until = null
where tenant = %(tenant)s and name = %(name)s and holder = %(holder)s

-- name: lag
-- How far a follower is behind its cursor: rows it has not passed, counted so far, the age of the next in seconds, and
-- what it has parked.
with behind as (
  select tx, position
  from outbox
  where tenant = %(tenant)s and (tx, position) > (%(cursor_tx)s::xid8, %(cursor_position)s)
  order by tx, position
  limit %(limit)s
),
next as (
  select recorded_at
  from journal
  where tenant = %(tenant)s and position = (select position from behind order by tx, position limit 1)
)
select count(*) as rows,
  coalesce(extract(epoch from clock_timestamp() - (select recorded_at from next)), 0)::float8 as seconds,
  (select count(*) from dead_letters where tenant = %(tenant)s and follower = %(name)s) as parked
from behind

-- name: cursor
-- How far a follower has come; no row for one that never began.
select cursor_tx, cursor_position from followers where tenant = %(tenant)s and name = %(name)s

-- name: first_not_passed
-- The lowest position that a follower has not passed yet; null when it has passed all.
select min(position) as position
from outbox
where tenant = %(tenant)s and (tx, position) > (%(cursor_tx)s::xid8, %(cursor_position)s)
