-- What was on record before the index and the versions of items: rows alone, so that others read and write meanwhile.

-- Whoever follows the journal to fill the index sees again what had made items: the new tables are empty.
insert into outbox (tenant, position)
select tenant, position from journal where result @? '$.items[*]';

with named as (
  select journal.tenant, changed.id, max(journal.position) as position
  from journal
  cross join lateral jsonb_array_elements_text(
    case when jsonb_typeof(journal.result -> 'items') = 'array' then journal.result -> 'items' end
  ) as changed (id)
  group by journal.tenant, changed.id
)
update items set version = named.position
from named where named.tenant = items.tenant and named.id = items.id and items.version < named.position;
