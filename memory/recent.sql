-- name: recent_items
-- What was changed in some scopes since the first event that a follower has still to pass, the latest first; no row
-- when it has passed all. A change is dated within its transaction, which may last some seconds.
select items.tenant, items.id, items.scope, items.kind, items.level, items.state, items.title, items.text, items.step,
  items.tags, items.version, items.updated_at
from items
where items.tenant = %(tenant)s and items.scope = any(%(scopes)s) and items.state = 'active'
  and items.updated_at > (
    select recorded_at - interval '60 seconds'
    from journal
    where tenant = %(tenant)s and position = (
      select position
      from outbox
      where tenant = %(tenant)s and (tx, position) > (%(cursor_tx)s::xid8, %(cursor_position)s)
      order by tx, position
      limit 1
    )
  )
  and (cardinality(%(kinds)s::text[]) = 0 or items.kind = any(%(kinds)s))
  and (cardinality(%(levels)s::text[]) = 0 or items.level = any(%(levels)s))
  and items.updated_at >= coalesce(%(not_before)s::timestamptz, '-infinity')
order by items.updated_at desc, items.id
limit %(limit)s
