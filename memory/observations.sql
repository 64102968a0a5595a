-- name: put_attempt
-- Records one attempt; the first report of an attempt counts.
insert into attempts (
  tenant, scope, step, occurrence, attempt, run, branch, visit, outcome, source, signature, family, environment,
  action, repair, repair_exit_code, waited_seconds, since_first_failure_seconds, package_id, position, recorded_at
) values (
  %(tenant)s, %(scope)s, %(step)s, %(occurrence)s, %(attempt)s, %(run)s, %(branch)s, %(visit)s, %(outcome)s,
  %(source)s, %(signature)s, %(family)s, %(environment)s, %(action)s, %(repair)s, %(repair_exit_code)s,
  %(waited_seconds)s, %(since_first_failure_seconds)s, %(package_id)s, %(position)s, %(recorded_at)s
)
on conflict do nothing

-- name: put_environment
-- Keeps what a fingerprint stands for.
insert into environments (tenant, fingerprint, parts)
values (%(tenant)s, %(fingerprint)s, %(parts)s)
on conflict do nothing

-- name: observations
-- The attempts of the latest occurrences that some lessons are made from, from after each one's retirement. What
-- failed with a signature that stands for a lesson's, or that the lesson's stands for, or with an earlier version's key
-- of it, is told as the lesson's own.
with lessons as (
  select items.id, coalesce(items.step, '') as step, items.signature, coalesce(items.retired_position, 0) as floor,
    coalesce(aliases.root, items.signature) as root
  from items
  left join aliases on aliases.tenant = %(tenant)s and aliases.scope = %(scope)s
    and aliases.signature = items.signature and aliases.ended_position is null
  where items.tenant = %(tenant)s and items.id = any(%(lessons)s) and items.signature is not null
),
members as (
  select id, root as signature from lessons
  union
  select id, unnest(%(earlier)s::text[]) from lessons
  union
  select lessons.id, aliases.signature
  from lessons
  join aliases on aliases.tenant = %(tenant)s and aliases.scope = %(scope)s
    and aliases.root = lessons.root and aliases.ended_position is null
),
keyed as (
  select lessons.*, array(select signature from members where members.id = lessons.id) as signatures from lessons
)
-- The latest attempts of each of the latest occurrences, the latest first, until there are enough for a lesson: neither
-- a step that retries for ever nor a busy one makes an answer late.
select keyed.id as lesson, tried.*
from keyed
cross join lateral (
  select one.occurrence, one.attempt, one.run, one.outcome, one.environment, one.action, one.repair, one.waited_seconds,
    one.since_first_failure_seconds, one.position, one.recorded_at,
    case when one.signature = any(keyed.signatures) then keyed.signature else one.signature end as signature
  from (
    select occurrence, max(position) as position
    from (
      select failed.occurrence, failed.position
      from unnest(keyed.signatures) as member (signature)
      cross join lateral (
        select occurrence, position
        from attempts
        where tenant = %(tenant)s and scope = %(scope)s and step = keyed.step and signature = member.signature
          and position > keyed.floor
        order by position desc
        limit %(limit)s
      ) as failed
      order by failed.position desc
      limit %(limit)s
    ) as latest
    group by occurrence
  ) as seen
  cross join lateral (
    select *
    from attempts
    where tenant = %(tenant)s and scope = %(scope)s and step = keyed.step and occurrence = seen.occurrence
      and position > keyed.floor
    order by attempt desc
    limit %(most_an_occurrence)s
  ) as one
  order by seen.position desc, seen.occurrence, one.attempt desc
  limit %(most_a_lesson)s
) as tried
order by position

-- name: occurrence
-- The latest attempts of one occurrence, in order, with the titles of their failures.
select latest.attempt, latest.outcome, latest.signature, signatures.title
from (
  select *
  from attempts
  where tenant = %(tenant)s and scope = %(scope)s and step = %(step)s and occurrence = %(occurrence)s
  order by attempt desc
  limit %(limit)s
) as latest
left join signatures using (tenant, scope, signature)
order by attempt

-- name: run_name
-- The workflow id that a run is known by: the one that closed it, else the first that reported from it.
-- A run of many events is not read for it: each of the two is looked up by itself, the first among the run's first.
select workflow_id, step, visit
from (
  (
    select workflow_id, step, visit, 1 as rank, position
    from journal
    where tenant = %(tenant)s and run = %(run)s and kind = 'decision_documented' and payload ->> 'kind' = 'run_final'
    order by position
    limit 1
  )
  union all
  (
    select workflow_id, step, visit, 2, position
    from journal
    where tenant = %(tenant)s and run = %(run)s
    order by position
    limit 20
  )
) as named
where workflow_id is not null
order by rank, position
limit 1
