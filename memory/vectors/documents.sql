-- name: some_items
-- Some items, whatever their state.
select tenant, id, scope, kind, level, state, title, text, step, tags, version, updated_at
from items where tenant = %(tenant)s and id = any(%(ids)s)

-- name: items_after
-- The next items in the order in which an index lists its own.
select tenant, id, scope, kind, level, state, title, text, step, tags, version, updated_at
from items
where tenant = %(tenant)s and (scope collate "C", id collate "C") > (%(scope)s, %(id)s)
order by scope collate "C", id collate "C"
limit %(limit)s

-- name: items_changed_after
-- The next items in the order of their last change.
select tenant, id, scope, kind, level, state, title, text, step, tags, version, updated_at
from items
where tenant = %(tenant)s and (updated_at, id) > (%(changed_at)s, %(id)s)
order by updated_at, id
limit %(limit)s

-- name: now
-- The database's clock, by which changes are dated.
select clock_timestamp() as now
