-- The journal, what is folded from it, and who has read it. Needs the roles poimen_owner (runs this) and poimen_app.
--
-- Rules for every table that has a tenant: the tenant leads every key, row-level security is forced, and nothing
-- refers to the journal by foreign key, because a fold may be rebuilt while the journal grows.

create table journal (
  position bigint generated always as identity (cache 1),
  tenant text not null check (tenant <> ''),
  scope text not null check (scope <> ''),
  id uuid not null default uuidv7(),
  kind text not null check (kind ~ '^[a-z_]{1,64}$'),
  key text not null check (key <> ''),
  -- SHA-256 over the kind and the canonical payload: the same key with another hash is a conflict.
  request_hash bytea not null check (octet_length(request_hash) = 32),
  recorded_at timestamptz not null default clock_timestamp(),
  -- The caller's claim; nothing is ordered by it.
  occurred_at timestamptz,
  trace_id text,
  workflow_id text,
  run_id text,
  run text,
  branch text,
  step text,
  visit integer,
  attempt integer,
  principal text,
  origin text not null,
  payload jsonb not null,
  -- JSON pointer into the payload -> SHA-256 (hex) of a row in bodies; that place in the payload is null.
  body_parts jsonb,
  result jsonb not null,
  -- The tenant first here too: read in order of position alone, the newest event of a quiet tenant lies behind all the
  -- events that the others recorded since.
  primary key (tenant, position),
  unique (tenant, key)
);
create unique index journal_by_id on journal (tenant, id);
create index journal_by_run on journal (tenant, run, position) where run is not null;
-- The pattern's order, whatever the database's collation: the beginning of an id is looked up as well.
create index journal_by_workflow on journal (tenant, workflow_id text_pattern_ops, position)
  where workflow_id is not null;
-- How a run ended, among all that it recorded.
create index journal_by_run_end on journal (tenant, run, position)
  where kind = 'decision_documented' and payload ->> 'kind' = 'run_final';

create table bodies (
  tenant text not null,
  sha256 text not null check (sha256 ~ '^[0-9a-f]{64}$'),
  bytes bigint not null,
  text text not null,
  recorded_at timestamptz not null default clock_timestamp(),
  primary key (tenant, sha256)
);

-- Identity values are handed out before they become visible, so a reader that keeps the last position loses rows.
-- Followers therefore read by (tx, position) and only below the oldest running transaction.
create table outbox (
  tenant text not null,
  tx xid8 not null default pg_current_xact_id(),
  position bigint not null,
  primary key (tenant, tx, position)
);

create table followers (
  tenant text not null,
  name text not null,
  -- Rises with every change of holder; a cursor moves only under the generation that read the batch.
  generation bigint not null default 0,
  holder text,
  lease_until timestamptz,
  cursor_tx xid8 not null default '0',
  cursor_position bigint not null default 0,
  primary key (tenant, name)
);

create table dead_letters (
  tenant text not null,
  follower text not null,
  position bigint not null,
  tries integer not null,
  -- The class of the error and nothing of its text: that may quote content.
  error text not null,
  parked_at timestamptz not null default clock_timestamp(),
  primary key (tenant, follower, position)
);

-- One row for one try of a step: what was applied before it, and how it ended.
create table attempts (
  tenant text not null,
  scope text not null,
  step text not null,
  occurrence text not null,
  attempt integer not null,
  run text,
  branch text,
  visit integer not null default 1,
  outcome text not null check (outcome in ('succeeded', 'failed')),
  source text,
  signature text,
  family text,
  environment text,
  action text not null default 'none' check (action in ('none', 'wait', 'repair', 'prevention')),
  repair text,
  repair_exit_code integer,
  waited_seconds double precision not null default 0,
  since_first_failure_seconds double precision not null default 0,
  package_id text,
  position bigint not null,
  recorded_at timestamptz not null,
  primary key (tenant, scope, step, occurrence, attempt)
);
create index attempts_by_signature on attempts (tenant, scope, step, signature, position desc)
  where signature is not null;
create index attempts_by_step on attempts (tenant, scope, step, position desc) where signature is not null;
create index attempts_by_run on attempts (tenant, run, position) where run is not null;

create table signatures (
  tenant text not null,
  scope text not null,
  signature text not null,
  kind text not null,
  family text not null,
  title text not null,
  template text not null,
  sample text not null,
  weak boolean not null default false,
  first_position bigint not null,
  first_run text,
  first_at timestamptz not null,
  primary key (tenant, scope, signature)
);
create index signatures_by_family on signatures (tenant, scope, family);

-- Every step execution leaves one, healthy ones too: the incident rate reads them.
create table step_outcomes (
  tenant text not null,
  scope text not null,
  step text not null,
  run text not null,
  branch text not null default '',
  visit integer not null,
  environment text not null default '',
  prevented_by text,
  prevented_signature text,
  first_signature text,
  ended text not null,
  position bigint not null,
  recorded_at timestamptz not null,
  primary key (tenant, scope, step, run, branch, visit)
);
create index step_outcomes_by_position on step_outcomes (tenant, scope, step, position desc);
-- What a step does in one environment is read apart from all the others, however many there are.
create index step_outcomes_by_environment on step_outcomes (tenant, scope, step, environment, position desc);

create table environments (
  tenant text not null,
  fingerprint text not null,
  parts jsonb not null,
  primary key (tenant, fingerprint)
);

create table items (
  tenant text not null,
  id text not null,
  scope text not null,
  kind text not null,
  level text not null,
  state text not null default 'active' check (state in ('active', 'retired', 'quarantined')),
  title text not null,
  text text not null,
  origin text not null,
  trust text not null,
  confidence double precision check (confidence between 0 and 1),
  step text,
  signature text,
  tags text[] not null default '{}',
  principal text,
  revision integer not null default 1,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  created_position bigint,
  retired_position bigint,
  primary key (tenant, id)
);
-- The signature first: a search by it names no step.
create index items_by_signature on items (tenant, scope, signature, step);
-- For the beginning of an id, whatever the database's collation.
create index items_by_beginning on items (tenant, id text_pattern_ops);
create index items_by_scope on items (tenant, scope, state, kind);

-- What was delivered to one attempt. Written within the deadline of the call that delivers it.
create table receipts (
  tenant text not null,
  package_id text not null,
  scope text not null,
  run text,
  branch text,
  step text,
  visit integer,
  attempt integer,
  item_ids text[] not null default '{}',
  prevention jsonb,
  empty_reason text,
  tiers jsonb not null default '[]',
  position bigint,
  recorded_at timestamptz not null default clock_timestamp(),
  primary key (tenant, package_id)
);
create index receipts_by_run on receipts (tenant, run, step) where run is not null;

create table lexical_documents (
  tenant text not null,
  scope text not null,
  item_id text not null,
  kind text not null,
  level text not null,
  state text not null,
  length integer not null check (length >= 0),
  -- The position of the event the document was made from: an older one never overwrites a newer one.
  version bigint not null,
  primary key (tenant, scope, item_id)
);

create table lexical_postings (
  tenant text not null,
  scope text not null,
  term text not null,
  item_id text not null,
  frequency integer not null check (frequency > 0),
  primary key (tenant, scope, term, item_id)
);
create index lexical_postings_by_item on lexical_postings (tenant, scope, item_id);

do $$
declare
  name text;
begin
  foreach name in array array[
    'journal', 'bodies', 'outbox', 'followers', 'dead_letters', 'attempts', 'signatures', 'step_outcomes',
    'environments', 'items', 'receipts', 'lexical_documents', 'lexical_postings'
  ] loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    -- After a transaction the setting is an empty string, not null: without nullif it would match a tenant ''.
    execute format(
      'create policy of_tenant on %I using (tenant = nullif(current_setting(''app.tenant'', true), ''''))'
      ' with check (tenant = nullif(current_setting(''app.tenant'', true), ''''))', name);
  end loop;
end
$$;

-- The record is append-only for the application; what is folded from it may be rebuilt.
grant select, insert on journal, bodies to poimen_app;
grant usage on sequence journal_position_seq to poimen_app;
grant select, insert, delete on outbox to poimen_app;
grant select, insert, update on followers to poimen_app;
grant select, insert, update, delete on
  dead_letters, attempts, signatures, step_outcomes, environments, items, receipts, lexical_documents, lexical_postings
  to poimen_app;
