-- Tier 2 in Postgres: generations of the index, documents with their words, postings, vectors. They take the place of
-- the search by words alone. Needs the extension vector, 0.8 or newer, which a superuser creates.

drop table lexical_documents, lexical_postings;

-- A whole index of a tenant. What is dropped is taken away little by little.
create table index_generations (
  tenant text not null,
  number integer not null,
  state text not null check (state in ('building', 'live', 'kept', 'dropped')),
  -- What made its vectors; empty and 0 when it has none.
  embedder text not null,
  dimension integer not null check (dimension >= 0),
  primary key (tenant, number)
);
create unique index index_generations_by_state on index_generations (tenant, state) where state <> 'dropped';

-- The documents of one scope in one generation: what a search is over. Every writer of the scope locks this row first.
create table index_corpora (
  tenant text not null,
  corpus bigint generated always as identity,
  generation integer not null,
  scope text collate "C" not null,
  -- Active documents, and their terms counted with repetitions.
  documents integer not null default 0,
  total_length bigint not null default 0,
  -- The last number that a document was given.
  issued integer not null default 0,
  -- Whether any of its vectors is in the graph.
  graphed boolean not null default false,
  primary key (tenant, corpus),
  unique (tenant, generation, scope),
  foreign key (tenant, generation) references index_generations (tenant, number)
) with (fillfactor = 50);

create table index_documents (
  tenant text not null,
  corpus bigint not null,
  id text collate "C" not null,
  document integer not null,
  kind text not null,
  level text not null,
  state text not null check (state in ('active', 'retired', 'quarantined')),
  recorded_at timestamptz,
  length integer not null check (length >= 0),
  -- The position of the event the document was made from: an older one never overwrites a newer one.
  version bigint not null,
  digest bytea not null,
  -- The text as terms, each once, and how often it has them.
  terms text[] collate "C" not null,
  frequencies integer[] not null,
  primary key (tenant, corpus, id)
) with (autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
-- With what a search reads of a document: those of a scope lie together here, and across the table in the table.
create unique index index_documents_by_number on index_documents (tenant, corpus, document)
  include (id, length, kind, level, recorded_at) where state = 'active';

-- The active documents that have a term, 256 numbers a row: a row a document costs a search twenty times as much. An
-- entry has 8 bytes, big-endian: the document's number (4), how often it has the term (2), its length (2).
create table index_postings (
  tenant text not null,
  corpus bigint not null,
  term text collate "C" not null,
  block integer not null,
  entries bytea not null,
  primary key (tenant, corpus, term, block)
) with (fillfactor = 80, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
-- 2 kB at most, so never compressed and never apart.
alter table index_postings alter column entries set storage plain;

-- Vectors of length 1, of active documents. Two bytes a number: cosines differ by less than a ten-thousandth.
create table index_vectors (
  tenant text not null,
  corpus bigint not null,
  document integer not null,
  -- How a search comes to it: one by one; one by one and too long for the index beside; through the graph of its
  -- dimension, for those of a scope that has thousands of others.
  reached text not null check (reached in ('scan', 'long', 'graph')),
  embedding halfvec not null,
  primary key (tenant, corpus, document)
) with (autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
-- Beside its row as long as it fits the page: one that lies elsewhere is read several times slower.
alter table index_vectors alter column embedding set storage main;
-- Vectors and all: those of one scope lie together here, and across the table in the table. Longer ones do not fit.
create index index_vectors_one_by_one on index_vectors (tenant, corpus, document) include (embedding)
  where reached = 'scan';
create index index_vectors_long on index_vectors (tenant, corpus, document)
  where reached = 'long';
create index index_vectors_in_graph on index_vectors (tenant, corpus, document)
  where reached = 'graph';

do $$
declare
  dimension integer;
begin
  foreach dimension in array array[256, 384, 512, 768, 1024, 1536, 2048, 3072] loop
    execute format(
      'create index index_vectors_graph_%1$s on index_vectors'
      ' using hnsw ((embedding::halfvec(%1$s)) halfvec_ip_ops) with (m = 16, ef_construction = 64)'
      ' where reached = ''graph'' and vector_dims(embedding) = %1$s', dimension);
  end loop;
end
$$;

do $$
declare
  name text;
begin
  foreach name in array array[
    'index_generations', 'index_corpora', 'index_documents', 'index_postings', 'index_vectors'
  ] loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format(
      'create policy of_tenant on %I using (tenant = nullif(current_setting(''app.tenant'', true), ''''))'
      ' with check (tenant = nullif(current_setting(''app.tenant'', true), ''''))', name);
  end loop;
end
$$;

grant select, insert, update, delete on
  index_generations, index_corpora, index_documents, index_postings, index_vectors to poimen_app;
grant usage on sequence index_corpora_corpus_seq to poimen_app;

-- The version of an item: by it an index tells an older state of the item from a newer one, in whatever order they come.
alter table items add column version bigint not null default 0;

-- Everybody waits for whoever changes a table, until that is committed, so what takes its time is the next file. The
-- owner is bound by the policies too, but for that file.
alter table items no force row level security;
alter table journal no force row level security;
alter table outbox no force row level security;
