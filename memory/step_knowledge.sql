-- name: latest_outcomes
-- How the latest executions of a step in one environment began and ended; a signature that stands for another is told
-- as that one.
select run, branch, visit, environment, prevented_by, ended, position,
  coalesce(
    (
      select root from aliases
      where tenant = %(tenant)s and scope = %(scope)s and signature = first_signature and ended_position is null
    ),
    first_signature
  ) as first_signature,
  coalesce(
    (
      select root from aliases
      where tenant = %(tenant)s and scope = %(scope)s and signature = prevented_signature and ended_position is null
    ),
    prevented_signature
  ) as prevented_signature
from step_outcomes
where tenant = %(tenant)s and scope = %(scope)s and step = %(step)s and environment = %(environment)s
order by position desc
limit %(limit)s

-- name: lessons
-- The lessons made from a step's failures: the asked one first, then those its latest executions here began with or were
-- kept from, then the latest. Each failure is looked up by itself, so that a step may have any number of them.
with began as (
  select first_signature, prevented_signature
  from step_outcomes
  where tenant = %(tenant)s and scope = %(scope)s and step = %(step)s and environment = %(environment)s
  order by position desc
  limit %(outcomes)s
),
recent as (
  select signature, position
  from attempts
  where tenant = %(tenant)s and scope = %(scope)s and step = %(step)s and signature is not null
  order by position desc
  limit %(attempts)s
),
wanted as (
  select signature, min(rank) as rank, max(position) as position
  from (
    select %(first)s::text, 1, null::bigint
    union all select first_signature, 2, null from began
    union all select prevented_signature, 2, null from began
    union all select signature, 3, position from recent
  ) as named (signature, rank, position)
  where signature is not null
  group by signature
),
-- Of several that stand for one failure, one lesson tells what all of them taught.
known as (
  select items.*, wanted.rank, wanted.position,
    coalesce(
      (
        select root from aliases
        where tenant = %(tenant)s and scope = %(scope)s and signature = wanted.signature and ended_position is null
      ),
      wanted.signature
    ) as root
  from wanted
  join items on items.tenant = %(tenant)s and items.scope = %(scope)s and items.step = %(step)s
    and items.signature = wanted.signature and items.kind = 'lesson' and items.state = 'active'
),
told as (
  select distinct on (root) * from known order by root, rank, position desc nulls last, id
)
select * from told
order by rank, position desc nulls last, id
limit %(limit)s

-- name: signature_words
-- What a failure looked like when it was first seen in a scope.
select title, template, sample
from signatures
where tenant = %(tenant)s and scope = %(scope)s and signature = %(signature)s

-- name: helped
-- How often a retry that had an item in its context succeeded, in the latest executions of a step.
with recent as (
  select run
  from step_outcomes
  where tenant = %(tenant)s and scope = %(scope)s and step = %(step)s
  order by position desc
  limit %(limit)s
),
told as (
  -- A receipt counts once, by the first outcome that names it; an attempt 1 had nothing to be helped with.
  select distinct on (attempts.package_id) attempts.package_id, attempts.outcome
  from attempts
  where tenant = %(tenant)s and scope = %(scope)s and step = %(step)s and attempt > 1
    and package_id is not null and run in (select run from recent)
  order by attempts.package_id, attempts.position
)
select item.id, count(*) as tried, count(*) filter (where told.outcome = 'succeeded') as worked
from told
join receipts on receipts.tenant = %(tenant)s and receipts.package_id = told.package_id
cross join unnest(receipts.item_ids) as item (id)
group by item.id
