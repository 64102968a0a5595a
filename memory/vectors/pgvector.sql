-- name: hold_generations
-- The generations that take writes, kept from being taken away until the end of the transaction.
select number, state, embedder, dimension
from index_generations
where tenant = %(tenant)s and state in ('live', 'building')
for key share

-- name: add_corpora
-- Gives scopes that are new their places.
insert into index_corpora (tenant, generation, scope)
select generation.tenant, generation.number, given.scope
from index_generations as generation
cross join unnest(%(scopes)s::text[]) as given (scope)
where generation.tenant = %(tenant)s and generation.state in ('live', 'building')
  and generation.embedder = %(embedder)s and generation.dimension = %(dimension)s
order by generation.number, given.scope
on conflict do nothing

-- name: lock_corpora
-- The places that some scopes' documents are written to, locked in one order by every writer.
select corpus.corpus, corpus.scope, corpus.documents, corpus.issued,
  exists (select from index_generations where tenant = %(tenant)s and state = 'dropped') as littered
from index_corpora as corpus
join index_generations as generation
  on generation.tenant = corpus.tenant and generation.number = corpus.generation
where corpus.tenant = %(tenant)s and corpus.scope = any(%(scopes)s::text[])
  and generation.state in ('live', 'building')
  and generation.embedder = %(embedder)s and generation.dimension = %(dimension)s
order by corpus.corpus
for update of corpus

-- name: known_documents
-- What is there of some documents.
select known.corpus, known.id, known.document, known.version, known.state, known.length, known.digest
from unnest(%(corpora)s::bigint[], %(ids)s::text[]) as given (corpus, id)
join index_documents as known
  on known.tenant = %(tenant)s and known.corpus = given.corpus and known.id = given.id

-- name: drop_lone_postings
-- Takes rows of postings out that have no other documents than some.
with former as materialized (
  select known.corpus, word.term, known.document / 256 as block, count(*) as documents
  from unnest(%(corpora)s::bigint[], %(ids)s::text[]) as given (corpus, id)
  join index_documents as known
    on known.tenant = %(tenant)s and known.corpus = given.corpus and known.id = given.id
  cross join unnest(known.terms) as word (term)
  group by known.corpus, word.term, known.document / 256
)
delete from index_postings as posting
using former
where posting.tenant = %(tenant)s and posting.corpus = former.corpus and posting.term = former.term
  and posting.block = former.block and octet_length(posting.entries) = 8 * former.documents

-- name: drop_postings
-- Takes the entries of some documents out of the postings.
with former as materialized (
  select known.corpus, word.term, known.document / 256 as block, array_agg(int4send(known.document)) as documents
  from unnest(%(corpora)s::bigint[], %(ids)s::text[]) as given (corpus, id)
  join index_documents as known
    on known.tenant = %(tenant)s and known.corpus = given.corpus and known.id = given.id
  cross join unnest(known.terms) as word (term)
  group by known.corpus, word.term, known.document / 256
)
update index_postings as posting
set entries = (
  select coalesce(string_agg(substring(posting.entries from place for 8), ''::bytea order by place), ''::bytea)
  from generate_series(1, octet_length(posting.entries), 8) as place
  where substring(posting.entries from place for 4) <> all(former.documents)
)
from former
where posting.tenant = %(tenant)s and posting.corpus = former.corpus and posting.term = former.term
  and posting.block = former.block

-- name: drop_vectors
-- Takes the vectors of some documents out.
delete from index_vectors as vector
using unnest(%(corpora)s::bigint[], %(documents)s::integer[]) as given (corpus, document)
where vector.tenant = %(tenant)s and vector.corpus = given.corpus and vector.document = given.document

-- name: put_documents
-- Stores documents, over what is there of them.
insert into index_documents as known (
  tenant, corpus, id, document, kind, level, state, recorded_at, length, version, digest, terms, frequencies
)
select %(tenant)s, given.corpus, given.id, given.document, given.kind, given.level, given.state, given.recorded_at,
  given.length, given.version, decode(given.digest, 'hex'),
  array(select jsonb_object_keys(given.words)), array(select value::integer from jsonb_each(given.words))
from rows from (
  unnest(
    %(corpora)s::bigint[], %(ids)s::text[], %(documents)s::integer[], %(kinds)s::text[], %(levels)s::text[],
    %(states)s::text[], %(recorded_at)s::timestamptz[], %(lengths)s::integer[], %(versions)s::bigint[],
    %(digests)s::text[]
  ),
  jsonb_array_elements(%(words)s::jsonb)
) as given (corpus, id, document, kind, level, state, recorded_at, length, version, digest, words)
on conflict (tenant, corpus, id) do update
set kind = excluded.kind, level = excluded.level, state = excluded.state, recorded_at = excluded.recorded_at,
    length = excluded.length, version = excluded.version, digest = excluded.digest, terms = excluded.terms,
    frequencies = excluded.frequencies

-- name: put_postings
-- Adds entries to the postings.
insert into index_postings as posting (tenant, corpus, term, block, entries)
select %(tenant)s, given.corpus, given.term, given.block, decode(given.entries, 'hex')
from unnest(
  %(corpora)s::bigint[], %(terms)s::text[], %(blocks)s::integer[], %(entries)s::text[]
) as given (corpus, term, block, entries)
on conflict (tenant, corpus, term, block) do update set entries = posting.entries || excluded.entries

-- name: put_vectors
-- Stores the vectors of some documents.
insert into index_vectors (tenant, corpus, document, reached, embedding)
select %(tenant)s, given.corpus, given.document, given.reached, given.embedding::halfvec
from unnest(
  %(corpora)s::bigint[], %(documents)s::integer[], %(reached)s::text[], %(embeddings)s::text[]
) as given (corpus, document, reached, embedding)

-- name: move_versions
-- Notes that some documents are what a newer event says as well.
update index_documents as known
set version = given.version
from unnest(%(corpora)s::bigint[], %(ids)s::text[], %(versions)s::bigint[]) as given (corpus, id, version)
where known.tenant = %(tenant)s and known.corpus = given.corpus and known.id = given.id

-- name: count_corpora
-- Keeps the counts of some places in step with what was written to them.
update index_corpora as corpus
set documents = corpus.documents + given.documents, total_length = corpus.total_length + given.total_length,
    issued = given.issued, graphed = corpus.graphed or given.graphed
from unnest(
  %(corpora)s::bigint[], %(added)s::integer[], %(lengths)s::bigint[], %(issued)s::integer[], %(graphed)s::boolean[]
) as given (corpus, documents, total_length, issued, graphed)
where corpus.tenant = %(tenant)s and corpus.corpus = given.corpus

-- name: plan_searches
-- Has each search planned for its own values and by index, though a table be small or not analysed yet, and the graph
-- followed until enough of the scope is found. The distance loads the extension: only then is a value that it does not
-- know refused.
select set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true),
  set_config('enable_seqscan', 'off', true),
  set_config(
    case when '[1]'::vector <#> '[1]'::vector = -1 then 'hnsw.iterative_scan' end, 'relaxed_order', true
  ) as iterative_scan,
  set_config('hnsw.ef_search', '100', true)

-- name: live_corpora
-- The live generation, and what some scopes hold in it.
select generation.embedder, generation.dimension, corpus.corpus, corpus.documents, corpus.total_length, corpus.issued,
  corpus.graphed
from index_generations as generation
left join index_corpora as corpus
  on corpus.tenant = generation.tenant and corpus.generation = generation.number
  and corpus.scope = any(%(scopes)s::text[])
where generation.tenant = %(tenant)s and generation.state = 'live'
order by corpus.corpus

-- name: postings
-- How many documents have each term, and its entries one behind the other unless there are too many.
select corpus, term, sum(octet_length(entries)) / 8 as documents,
  case when sum(octet_length(entries)) / 8 <= %(most)s then string_agg(entries, ''::bytea) end as entries
from index_postings
where tenant = %(tenant)s and corpus = any(%(corpora)s::bigint[]) and term = any(%(terms)s::text[])
group by corpus, term

-- name: allowed
-- The numbers of the active documents that pass the filters.
select corpus, string_agg(int4send(document), ''::bytea) as documents
from index_documents
where tenant = %(tenant)s and corpus = any(%(corpora)s::bigint[]) and state = 'active'
  and (cardinality(%(kinds)s::text[]) = 0 or kind = any(%(kinds)s::text[]))
  and (cardinality(%(levels)s::text[]) = 0 or level = any(%(levels)s::text[]))
  and (%(not_before)s::timestamptz is null or recorded_at >= %(not_before)s::timestamptz)
group by corpus

-- name: nearest
-- The nearest documents by cosine, of those that are compared one by one.
select vector.corpus, vector.document
from index_vectors as vector
where vector.tenant = %(tenant)s and vector.corpus = any(%(corpora)s::bigint[])
  and vector.reached = %(reached)s
  and (not %(filtered)s or (vector.corpus, vector.document) in (
    select known.corpus, known.document
    from index_documents as known
    where known.tenant = %(tenant)s and known.corpus = any(%(corpora)s::bigint[]) and known.state = 'active'
      and (cardinality(%(kinds)s::text[]) = 0 or known.kind = any(%(kinds)s::text[]))
      and (cardinality(%(levels)s::text[]) = 0 or known.level = any(%(levels)s::text[]))
      and (%(not_before)s::timestamptz is null or known.recorded_at >= %(not_before)s::timestamptz)
  ))
order by vector.embedding <#> %(vector)s::halfvec, vector.corpus, vector.document
limit %(candidates)s

-- name: nearest_in_graph
-- The nearest documents by cosine, of those that the graph leads to.
select vector.corpus, vector.document
from index_vectors as vector
where vector.tenant = %(tenant)s and vector.corpus = any(%(corpora)s::bigint[])
  and vector.reached = 'graph' and vector_dims(vector.embedding) = 384
  and (not %(filtered)s or exists (
    select from index_documents as known
    where known.tenant = %(tenant)s and known.corpus = vector.corpus and known.document = vector.document
      and known.state = 'active'
      and (cardinality(%(kinds)s::text[]) = 0 or known.kind = any(%(kinds)s::text[]))
      and (cardinality(%(levels)s::text[]) = 0 or known.level = any(%(levels)s::text[]))
      and (%(not_before)s::timestamptz is null or known.recorded_at >= %(not_before)s::timestamptz)
  ))
order by vector.embedding::halfvec(384) <#> %(vector)s::halfvec(384)
limit %(candidates)s

-- name: first_by_id
-- Of documents that score alike, those with the first ids.
select known.corpus, known.document
from unnest(%(corpora)s::bigint[], %(documents)s::integer[]) as given (corpus, document)
join index_documents as known
  on known.tenant = %(tenant)s and known.corpus = given.corpus and known.document = given.document
  and known.state = 'active'
order by known.id
limit %(limit)s

-- name: candidates
-- What is ranked of some documents: ids, lengths, vectors as big-endian 2-byte floats, and how often they have some
-- terms.
select known.corpus, known.document, known.id, known.length, halfvec_send(vector.embedding) as vector,
  case when cardinality(%(terms)s::text[]) > 0 then (
    select jsonb_object_agg(word.term, word.frequency)
    from unnest(known.terms, known.frequencies) as word (term, frequency)
    where word.term = any(%(terms)s::text[])
  ) end as frequencies
from unnest(%(corpora)s::bigint[], %(documents)s::integer[]) as given (corpus, document)
join index_documents as known
  on known.tenant = %(tenant)s and known.corpus = given.corpus and known.document = given.document
  and known.state = 'active'
left join index_vectors as vector
  on vector.tenant = %(tenant)s and vector.corpus = given.corpus and vector.document = given.document and %(meant)s
  and (%(graphed)s or vector.reached = %(reached)s)

-- name: generations
-- The generations of a tenant that are not dropped, newest first.
select number, state, embedder, dimension
from index_generations
where tenant = %(tenant)s and state <> 'dropped'
order by number desc

-- name: lock_generations
-- One at a time may begin or promote a generation of a tenant.
select pg_advisory_xact_lock(hashtextextended('index_generations ' || %(tenant)s, 0))

-- name: drop_generations
-- Gives generations of some states up.
update index_generations set state = 'dropped' where tenant = %(tenant)s and state = any(%(states)s::text[])

-- name: add_building
-- Adds a generation that is being built.
insert into index_generations (tenant, number, state, embedder, dimension)
select %(tenant)s, coalesce(max(number), 0) + 1, 'building', %(embedder)s, %(dimension)s
from index_generations
where tenant = %(tenant)s
returning number, state, embedder, dimension

-- name: keep_live
-- Makes the live generation the one that is kept.
update index_generations set state = 'kept' where tenant = %(tenant)s and state = 'live'

-- name: make_live
-- Makes the generation that was being built live.
update index_generations set state = 'live' where tenant = %(tenant)s and number = %(number)s and state = 'building'

-- name: sweep
-- Takes some documents of a dropped generation away; gives a row when there is such a generation.
with doomed as materialized (
  select number
  from index_generations
  where tenant = %(tenant)s and state = 'dropped'
  order by number
  limit 1
  for update skip locked
),
place as materialized (
  select corpus.corpus
  from index_corpora as corpus
  join doomed on doomed.number = corpus.generation
  where corpus.tenant = %(tenant)s
  order by corpus.corpus
  limit 1
),
documents as (
  delete from index_documents as known
  using (
    select document.corpus, document.id
    from place
    join index_documents as document on document.tenant = %(tenant)s and document.corpus = place.corpus
    limit %(limit)s
  ) as chosen
  where known.tenant = %(tenant)s and known.corpus = chosen.corpus and known.id = chosen.id
  returning known.id
),
postings as (
  delete from index_postings as posting
  using (
    select entry.corpus, entry.term, entry.block
    from place
    join index_postings as entry on entry.tenant = %(tenant)s and entry.corpus = place.corpus
    limit %(limit)s
  ) as chosen
  where posting.tenant = %(tenant)s and posting.corpus = chosen.corpus and posting.term = chosen.term
    and posting.block = chosen.block
  returning posting.term
),
vectors as (
  delete from index_vectors as vector
  using (
    select embedded.corpus, embedded.document
    from place
    join index_vectors as embedded on embedded.tenant = %(tenant)s and embedded.corpus = place.corpus
    limit %(limit)s
  ) as chosen
  where vector.tenant = %(tenant)s and vector.corpus = chosen.corpus and vector.document = chosen.document
  returning vector.document
)
select doomed.number, place.corpus,
  (select count(*) from documents) + (select count(*) from postings) + (select count(*) from vectors) as taken
from doomed left join place on true

-- name: sweep_corpus
-- Takes an empty place away.
delete from index_corpora where tenant = %(tenant)s and corpus = %(corpus)s

-- name: sweep_generation
-- Takes a dropped generation away that has no place left.
delete from index_generations where tenant = %(tenant)s and number = %(number)s and state = 'dropped'

-- name: entries
-- Documents of a generation in order of scope and id, from behind a place on.
select corpus.scope, known.id, known.version, known.state, encode(known.digest, 'hex') as digest
from index_corpora as corpus
cross join lateral (
  select document.id, document.version, document.state, document.digest
  from index_documents as document
  where document.tenant = %(tenant)s and document.corpus = corpus.corpus
    and document.id > case corpus.scope when %(scope)s then %(id)s else '' end
  order by document.id
  limit %(limit)s
) as known
where corpus.tenant = %(tenant)s and corpus.generation = %(number)s and corpus.scope >= %(scope)s
order by corpus.scope, known.id
limit %(limit)s

-- name: answer
-- Reads one generation, to see that the tables answer.
select embedder from index_generations where tenant = %(tenant)s and state = 'live'
