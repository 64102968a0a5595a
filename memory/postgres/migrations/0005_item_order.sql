-- The owner is bound by the policies again, and items are listed in two more orders.

-- In the order in which an index lists its own.
create index items_in_order on items (tenant, scope collate "C", id collate "C");
create index items_by_change on items (tenant, updated_at, id);
-- What a scope learned lately.
create index items_by_scope_change on items (tenant, scope, updated_at);

-- Last, for nobody reads a table from here until this is committed.
alter table items force row level security;
alter table journal force row level security;
alter table outbox force row level security;
