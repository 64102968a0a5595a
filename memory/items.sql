-- name: put_item
-- Adds an item unless it is there; gives a row when it did.
insert into items (
  tenant, id, scope, kind, level, state, title, text, origin, trust, step, signature, tags, principal,
  created_at, updated_at, created_position, version
) values (
  %(tenant)s, %(id)s, %(scope)s, %(kind)s, %(level)s, %(state)s, %(title)s, %(text)s, %(origin)s, %(trust)s,
  %(step)s, %(signature)s, %(tags)s, %(principal)s, %(recorded_at)s, %(recorded_at)s, %(position)s, %(position)s
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
where tenant = %(tenant)s and id ~>=~ %(beginning)s and id ~<~ (%(beginning)s || chr(1114111))
  and scope = coalesce(%(scope)s, scope)
order by id
limit 2

-- name: lock_item
-- One item, locked against a change by somebody else.
select * from items where tenant = %(tenant)s and id = %(id)s for update

-- name: revive_item
-- Makes a retired item live again, by evidence from after its retirement.
update items
set state = 'active', revision = revision + 1, updated_at = %(recorded_at)s,
    version = greatest(version + 1, %(position)s)
where tenant = %(tenant)s and id = %(id)s and state = 'retired' and retired_position < %(position)s
returning id

-- name: revise_item
-- Brings an item to what it says now.
update items
set title = %(title)s, text = %(text)s, tags = %(tags)s, state = %(state)s, trust = %(trust)s, origin = %(origin)s,
    revision = revision + 1, updated_at = %(recorded_at)s, retired_position = null,
    version = greatest(version + 1, %(position)s)
where tenant = %(tenant)s and id = %(id)s
returning revision

-- name: retire_item
-- Takes an item out of what is delivered. Whatever changes an item raises its version: events of one item may get
-- their positions in another order than they change it.
update items
set state = 'retired', revision = revision + 1, updated_at = %(recorded_at)s, retired_position = %(position)s,
    version = greatest(version + 1, %(position)s)
where tenant = %(tenant)s and id = %(id)s
returning revision

-- name: accept_item
-- Makes a candidate knowledge that is delivered: a person vouches for it.
update items
set state = 'active', level = 'L2', trust = 'reviewed', revision = revision + 1, updated_at = %(recorded_at)s,
    version = greatest(version + 1, %(position)s)
where tenant = %(tenant)s and id = %(id)s
returning revision

-- name: told_lessons
-- The latest lessons of a step that somebody wrote.
select *
from items
where tenant = %(tenant)s and scope = %(scope)s and step = %(step)s
  and signature is null and kind = 'lesson' and state = 'active'
order by updated_at desc, id
limit %(limit)s
