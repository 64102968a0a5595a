-- name: put_document
-- Stores a document unless the same or a newer version is there; gives a row when it did.
insert into lexical_documents as known (tenant, scope, item_id, kind, level, state, length, version)
values (%(tenant)s, %(scope)s, %(item_id)s, %(kind)s, %(level)s, %(state)s, %(length)s, %(version)s)
on conflict (tenant, scope, item_id) do update
set kind = excluded.kind, level = excluded.level, state = excluded.state,
    length = excluded.length, version = excluded.version
where known.version < excluded.version
returning item_id

-- name: drop_postings
-- Takes a document's terms out.
delete from lexical_postings where tenant = %(tenant)s and scope = %(scope)s and item_id = %(item_id)s

-- name: put_postings
-- Stores a document's terms.
insert into lexical_postings (tenant, scope, term, item_id, frequency)
select %(tenant)s, %(scope)s, given.term, %(item_id)s, given.frequency
from unnest(%(terms)s::text[], %(frequencies)s::integer[]) as given (term, frequency)

-- name: search
-- Ranks active documents by BM25; document counts and lengths are those of the searched scopes alone.
with corpus as materialized (
  select scope, item_id, kind, length
  from lexical_documents
  where tenant = %(tenant)s and scope = any(%(scopes)s) and state = 'active'
),
size as (
  select count(*)::double precision as documents, greatest(avg(length), 1)::double precision as mean from corpus
),
matched as materialized (
  select posting.term, posting.frequency, corpus.scope, corpus.item_id, corpus.kind, corpus.length
  from lexical_postings as posting
  join corpus using (scope, item_id)
  where posting.tenant = %(tenant)s and posting.scope = any(%(scopes)s) and posting.term = any(%(terms)s)
),
rarity as (
  select term, ln(1 + (size.documents - count(matched.item_id) + 0.5) / (count(matched.item_id) + 0.5)) as weight
  from unnest(%(terms)s::text[]) as term
  cross join size
  left join matched using (term)
  group by term, size.documents
),
ranked as (
  select
    item_id,
    sum(weight * frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * length / size.mean))) as score,
    sum(weight) as covered,
    array_agg(term order by weight desc, term) as terms
  from matched
  join rarity using (term)
  cross join size
  where cardinality(%(kinds)s::text[]) = 0 or kind = any(%(kinds)s)
  group by scope, item_id
  order by score desc, item_id
  limit %(limit)s
)
select size.documents, (select sum(weight) from rarity) as perfect, ranked.*
from size
left join ranked on true
order by ranked.score desc, ranked.item_id

-- name: ping
-- Reads one document's version, to see that the table answers. In the key's order: else a tenant of few is looked for
-- among all the others.
select version from lexical_documents where tenant = %(tenant)s order by scope, item_id limit 1
