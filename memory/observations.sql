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
seen as (
  select distinct lessons.id, lessons.step, lessons.signature, lessons.floor, latest.occurrence
  from lessons
  cross join lateral (
    select failed.occurrence
    from members
    cross join lateral (
      select occurrence, position
      from attempts
      where tenant = %(tenant)s and scope = %(scope)s and step = lessons.step and signature = members.signature
        and position > lessons.floor
      order by position desc
      limit %(limit)s
    ) as failed
    where members.id = lessons.id
    order by failed.position desc
    limit %(limit)s
  ) as latest
)
select seen.id as lesson, attempts.occurrence, attempts.attempt, attempts.run, attempts.outcome, attempts.environment,
  attempts.action, attempts.repair, attempts.waited_seconds, attempts.since_first_failure_seconds, attempts.position,
  attempts.recorded_at, coalesce(own.signature, attempts.signature) as signature
from seen
join attempts on attempts.tenant = %(tenant)s and attempts.scope = %(scope)s and attempts.step = seen.step
  and attempts.occurrence = seen.occurrence and attempts.position > seen.floor
left join lateral (
  select seen.signature from members where members.id = seen.id and members.signature = attempts.signature
) as own on true
order by attempts.position

-- name: occurrence
-- The attempts of one occurrence, in order, with the titles of their failures.
select attempts.*, signatures.title
from attempts
left join signatures using (tenant, scope, signature)
where tenant = %(tenant)s and scope = %(scope)s and step = %(step)s and occurrence = %(occurrence)s
order by attempt

-- name: run_name
-- The workflow id that a run is known by: the one that closed it, else the first that reported from it.
select workflow_id, step, visit
from journal
where tenant = %(tenant)s and run = %(run)s and workflow_id is not null
order by (kind = 'decision_documented' and payload ->> 'kind' = 'run_final') desc, position
limit 1
