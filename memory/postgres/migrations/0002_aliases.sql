-- Aliases: a signature that stands for another, so that the evidence of both is that of one failure. Rows are ended,
-- never changed into others: what was merged can be taken apart again.

create table aliases (
  tenant text not null,
  scope text not null,
  signature text not null,
  stands_for text not null,
  -- Where the chain that starts at stands_for ends; kept up to date by every write, so that a reader follows none.
  root text not null,
  reason text not null default '',
  principal text,
  origin text not null,
  -- The events that made it and ended it.
  position bigint not null,
  ended_position bigint,
  made_at timestamptz not null,
  ended_at timestamptz,
  primary key (tenant, scope, signature, position),
  check (signature <> stands_for and signature <> root),
  check ((ended_position is null) = (ended_at is null))
);
create unique index aliases_in_force on aliases (tenant, scope, signature) where ended_position is null;
create index aliases_by_root on aliases (tenant, scope, root) where ended_position is null;
create index aliases_by_target on aliases (tenant, scope, stands_for) where ended_position is null;

alter table aliases enable row level security;
alter table aliases force row level security;
create policy of_tenant on aliases using (tenant = nullif(current_setting('app.tenant', true), ''))
  with check (tenant = nullif(current_setting('app.tenant', true), ''));

grant select, insert, update, delete on aliases to poimen_app;
