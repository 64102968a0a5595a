-- The version of an item: by it an index tells an older state of the item from a newer one, in whatever order they come.

alter table items add column version bigint not null default 0;

-- The owner is bound by the policies too, until this has run.
alter table items no force row level security;
alter table journal no force row level security;
with named as (
  select journal.tenant, changed.id, max(journal.position) as position
  from journal
  cross join lateral jsonb_array_elements_text(
    case when jsonb_typeof(journal.result -> 'items') = 'array' then journal.result -> 'items' end
  ) as changed (id)
  group by journal.tenant, changed.id
)
update items set version = named.position from named where named.tenant = items.tenant and named.id = items.id;
alter table items force row level security;
alter table journal force row level security;

-- In the order in which an index lists its own.
create index items_in_order on items (tenant, scope collate "C", id collate "C");
create index items_by_change on items (tenant, updated_at, id);
-- What a scope learned lately.
create index items_by_scope_change on items (tenant, scope, updated_at);
