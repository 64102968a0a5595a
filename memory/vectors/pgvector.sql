-- name: add_first_generation
-- Gives a tenant its first generation, unless one is being built.
insert into index_generations (tenant, number, state, embedder, dimension)
select %(tenant)s, coalesce(max(number), 0) + 1, 'live', %(embedder)s, %(dimension)s
from index_generations
where tenant = %(tenant)s
having not coalesce(bool_or(state in ('live', 'building')), false)
on conflict do nothing

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
select corpus.corpus, corpus.scope, corpus.documents, corpus.issued
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

-- name: drop_postings
-- Takes the terms of some documents out.
with former as materialized (
  select known.corpus, known.document, unnest(known.terms) as term
  from unnest(%(corpora)s::bigint[], %(ids)s::text[]) as given (corpus, id)
  join index_documents as known
    on known.tenant = %(tenant)s and known.corpus = given.corpus and known.id = given.id
)
delete from index_postings as posting
using former
where posting.tenant = %(tenant)s and posting.corpus = former.corpus and posting.term = former.term
  and posting.document = former.document

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
from unnest(
  %(corpora)s::bigint[], %(ids)s::text[], %(documents)s::integer[], %(kinds)s::text[], %(levels)s::text[],
  %(states)s::text[], %(recorded_at)s::timestamptz[], %(lengths)s::integer[], %(versions)s::bigint[],
  %(digests)s::text[], %(words)s::jsonb[]
) as given (corpus, id, document, kind, level, state, recorded_at, length, version, digest, words)
on conflict (tenant, corpus, id) do update
set kind = excluded.kind, level = excluded.level, state = excluded.state, recorded_at = excluded.recorded_at,
    length = excluded.length, version = excluded.version, digest = excluded.digest, terms = excluded.terms,
    frequencies = excluded.frequencies

-- name: put_postings
-- Stores the terms of some documents.
insert into index_postings (tenant, corpus, term, document, frequency, length)
select %(tenant)s, given.corpus, word.key, given.document, word.value::integer, given.length
from unnest(
  %(corpora)s::bigint[], %(documents)s::integer[], %(lengths)s::integer[], %(words)s::jsonb[]
) as given (corpus, document, length, words)
cross join jsonb_each(given.words) as word

-- name: put_vectors
-- Stores the vectors of some documents.
insert into index_vectors (tenant, corpus, document, in_graph, embedding)
select %(tenant)s, given.corpus, given.document, given.in_graph, given.embedding::vector
from unnest(
  %(corpora)s::bigint[], %(documents)s::integer[], %(in_graph)s::boolean[], %(embeddings)s::text[]
) as given (corpus, document, in_graph, embedding)

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
-- Has each search planned for its own values, and the graph followed until enough of the scope is found. The distance
-- loads the extension: only then is a value that it does not know refused.
select set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true),
  set_config(
    case when '[1]'::vector <=> '[1]'::vector = 0 then 'hnsw.iterative_scan' end, 'relaxed_order', true
  ) as iterative_scan,
  set_config('hnsw.ef_search', '100', true)

-- name: live_corpora
-- The live generation, and what some scopes hold in it.
select generation.embedder, generation.dimension, corpus.corpus, corpus.documents, corpus.total_length, corpus.graphed
from index_generations as generation
left join index_corpora as corpus
  on corpus.tenant = generation.tenant and corpus.generation = generation.number
  and corpus.scope = any(%(scopes)s::text[])
where generation.tenant = %(tenant)s and generation.state = 'live'
order by corpus.corpus

-- name: containing
-- How many documents have each term.
select term, count(*) as documents
from index_postings
where tenant = %(tenant)s and corpus = any(%(corpora)s::bigint[]) and term = any(%(terms)s::text[])
group by term

-- name: best_by_words
-- The best documents by BM25, ties by id, and how many documents have each term, in one row.
with matched as materialized (
  select corpus, document, term, frequency, length
  from index_postings
  where tenant = %(tenant)s and corpus = any(%(corpora)s::bigint[]) and term = any(%(terms)s::text[])
),
containing as materialized (
  select term, count(*) as documents,
    ln(1 + (%(documents)s::double precision - count(*) + 0.5) / (count(*) + 0.5)) as rarity
  from matched
  group by term
),
allowed as (
  select corpus, document
  from index_documents
  where tenant = %(tenant)s and corpus = any(%(corpora)s::bigint[]) and state = 'active'
    and (cardinality(%(kinds)s::text[]) = 0 or kind = any(%(kinds)s::text[]))
    and (cardinality(%(levels)s::text[]) = 0 or level = any(%(levels)s::text[]))
    and (%(not_before)s::timestamptz is null or recorded_at >= %(not_before)s::timestamptz)
),
scored as (
  select corpus, document,
    sum(rarity * frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * length / %(mean_length)s::double precision)))
      as score
  from matched
  join containing using (term)
  where not %(filtered)s or (corpus, document) in (select corpus, document from allowed)
  group by corpus, document
  order by score desc
  fetch first %(candidates)s rows with ties
),
best as (
  select scored.corpus, scored.document
  from scored
  join index_documents as known
    on known.tenant = %(tenant)s and known.corpus = scored.corpus and known.document = scored.document
    and known.state = 'active'
  order by scored.score desc, known.id
  limit %(candidates)s
)
select (select coalesce(jsonb_object_agg(term, documents), '{}') from containing) as containing,
  array(select corpus from best) as corpora, array(select document from best) as documents

-- name: nearest
-- The nearest documents by cosine, of those that are compared one by one.
select vector.corpus, vector.document
from index_vectors as vector
where vector.tenant = %(tenant)s and vector.corpus = any(%(corpora)s::bigint[]) and not vector.in_graph
  and (not %(filtered)s or (vector.corpus, vector.document) in (
    select known.corpus, known.document
    from index_documents as known
    where known.tenant = %(tenant)s and known.corpus = any(%(corpora)s::bigint[]) and known.state = 'active'
      and (cardinality(%(kinds)s::text[]) = 0 or known.kind = any(%(kinds)s::text[]))
      and (cardinality(%(levels)s::text[]) = 0 or known.level = any(%(levels)s::text[]))
      and (%(not_before)s::timestamptz is null or known.recorded_at >= %(not_before)s::timestamptz)
  ))
order by vector.embedding <=> %(vector)s::vector, vector.document
limit %(candidates)s

-- name: nearest_in_graph
-- The nearest documents by cosine, of those that the graph leads to.
select vector.corpus, vector.document
from index_vectors as vector
where vector.tenant = %(tenant)s and vector.corpus = any(%(corpora)s::bigint[])
  and vector.in_graph and vector_dims(vector.embedding) = 384
  and (not %(filtered)s or exists (
    select from index_documents as known
    where known.tenant = %(tenant)s and known.corpus = vector.corpus and known.document = vector.document
      and known.state = 'active'
      and (cardinality(%(kinds)s::text[]) = 0 or known.kind = any(%(kinds)s::text[]))
      and (cardinality(%(levels)s::text[]) = 0 or known.level = any(%(levels)s::text[]))
      and (%(not_before)s::timestamptz is null or known.recorded_at >= %(not_before)s::timestamptz)
  ))
order by vector.embedding::halfvec(384) <=> %(vector)s::halfvec(384)
limit %(candidates)s

-- name: candidates
-- What is ranked of some documents, as aligned lists in one row: ids, lengths, how often they have each term, vectors
-- one behind the other as big-endian 4-byte floats.
with found as materialized (
  select known.id, known.length, vector.embedding,
    (
      select coalesce(jsonb_object_agg(word.term, word.frequency), '{}')
      from unnest(known.terms, known.frequencies) as word (term, frequency)
      where word.term = any(%(terms)s::text[])
    ) as frequencies
  from unnest(%(corpora)s::bigint[], %(documents)s::integer[]) as given (corpus, document)
  join index_documents as known
    on known.tenant = %(tenant)s and known.corpus = given.corpus and known.document = given.document
    and known.state = 'active'
  left join index_vectors as vector
    on vector.tenant = %(tenant)s and vector.corpus = given.corpus and vector.document = given.document
    and %(meant)s
)
select coalesce(jsonb_agg(jsonb_build_array(id, length, frequencies, embedding is not null) order by id), '[]')
    as documents,
  coalesce(string_agg(substring(vector_send(embedding) from 5), ''::bytea order by id), ''::bytea) as vectors
from found

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
chosen as materialized (
  select known.corpus, known.id
  from place
  join index_documents as known on known.tenant = %(tenant)s and known.corpus = place.corpus
  limit %(limit)s
),
gone as (
  delete from index_documents as known
  using chosen
  where known.tenant = %(tenant)s and known.corpus = chosen.corpus and known.id = chosen.id
  returning known.corpus, known.document, known.terms
),
postings as (
  delete from index_postings as posting
  using (select corpus, document, unnest(terms) as term from gone) as former
  where posting.tenant = %(tenant)s and posting.corpus = former.corpus and posting.term = former.term
    and posting.document = former.document
),
vectors as (
  delete from index_vectors as vector
  using gone
  where vector.tenant = %(tenant)s and vector.corpus = gone.corpus and vector.document = gone.document
)
select doomed.number, place.corpus, (select count(*) from gone) as documents
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
