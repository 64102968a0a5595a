-- name: journal_page
-- How far the next stretch of the journal goes, and how many events it has.
select max(position) as last, count(*) as count
from (
  select position from journal
  where tenant = %(tenant)s and position > %(after)s
  order by position
  limit %(limit)s
) as page

-- name: items_not_as_recorded
-- What the events of a stretch made or changed, where the items do not show it.
select journal.position, coalesce(known.scope, journal.scope) as scope, changed.id, known.version
from journal
cross join lateral jsonb_array_elements_text(
  case when jsonb_typeof(journal.result -> 'items') = 'array' then journal.result -> 'items' end
) as changed (id)
-- One by one: how many items an event names cannot be estimated, and the table may be far larger than a stretch.
left join lateral (
  select scope, version from items where items.tenant = %(tenant)s and items.id = changed.id limit 1
) as known on true
where journal.tenant = %(tenant)s and journal.position > %(after)s and journal.position <= %(last)s
  and (known.version is null or known.version < journal.position)
order by journal.position, changed.id

-- name: items_page
-- How far the next stretch of the items goes, and how many there are.
select max(id) as last, count(*) as count
from (
  select id from items where tenant = %(tenant)s and id > %(after)s order by id limit %(limit)s
) as page

-- name: items_without_event
-- The items of a stretch that name an event which the journal does not have.
select items.id, items.scope
from items
cross join lateral (values (items.created_position), (items.retired_position)) as named (position)
left join journal on journal.tenant = %(tenant)s and journal.position = named.position
where items.tenant = %(tenant)s and items.id > %(after)s and items.id <= %(last)s
  and named.position is not null and journal.position is null
order by items.id
