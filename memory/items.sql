-- name: put_item
-- Adds an item unless it is there; gives a row when it did.
insert into items (
  tenant, id, scope, kind, level, state, title, text, origin, trust, step, signature, tags, principal,
  created_at, updated_at, created_position
) values (
  %(tenant)s, %(id)s, %(scope)s, %(kind)s, %(level)s, %(state)s, %(title)s, %(text)s, %(origin)s, %(trust)s,
  %(step)s, %(signature)s, %(tags)s, %(principal)s, %(recorded_at)s, %(recorded_at)s, %(position)s
)
on conflict do nothing
returning id

-- name: item
-- One item.
select * from items where tenant = %(tenant)s and id = %(id)s

-- name: items
-- Some items that may be delivered.
select * from items where tenant = %(tenant)s and id = any(%(ids)s) and state = 'active'

-- name: items_like
-- The items whose ids begin so; two are enough to see that a short id is ambiguous.
select * from items
where tenant = %(tenant)s and starts_with(id, %(beginning)s) and scope = coalesce(%(scope)s, scope)
order by id
limit 2

-- name: lock_item
-- One item, locked against a change by somebody else.
select * from items where tenant = %(tenant)s and id = %(id)s for update

-- name: revive_item
-- Makes a retired item live again, by evidence from after its retirement.
update items
set state = 'active', revision = revision + 1, updated_at = %(recorded_at)s
where tenant = %(tenant)s and id = %(id)s and state = 'retired' and retired_position < %(position)s
returning id

-- name: retire_item
-- Takes an item out of what is delivered.
update items
set state = 'retired', revision = revision + 1, updated_at = %(recorded_at)s, retired_position = %(position)s
where tenant = %(tenant)s and id = %(id)s
returning revision

-- name: lessons_of_step
-- The lessons made from a step's failures: the asked ones first, then the latest.
select items.*, latest.recorded_at as seen_at
from items
left join lateral (
  select position, recorded_at
  from attempts
  where tenant = items.tenant and scope = items.scope and step = items.step and signature = items.signature
  order by position desc
  limit 1
) as latest on true
where items.tenant = %(tenant)s and items.scope = %(scope)s and items.step = %(step)s
  and items.signature is not null and items.kind = 'lesson' and items.state = 'active'
order by
  items.signature is not distinct from %(first)s desc,
  items.signature = any(%(wanted)s) desc,
  latest.position desc nulls last,
  items.id
limit %(limit)s

-- name: told_lessons
-- The latest lessons of a step that somebody wrote.
select *
from items
where tenant = %(tenant)s and scope = %(scope)s and step = %(step)s
  and signature is null and kind = 'lesson' and state = 'active'
order by updated_at desc, id
limit %(limit)s
