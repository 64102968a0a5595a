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
-- The attempts of the latest occurrences that some lessons are made from, from after each one's retirement.
with lessons as (
  select id, coalesce(step, '') as step, signature, coalesce(retired_position, 0) as floor
  from items
  where tenant = %(tenant)s and id = any(%(lessons)s) and signature is not null
),
seen as (
  select distinct lessons.id, lessons.step, lessons.floor, latest.occurrence
  from lessons
  cross join lateral (
    select occurrence
    from attempts
    where tenant = %(tenant)s and scope = %(scope)s and step = lessons.step and signature = lessons.signature
      and position > lessons.floor
    order by position desc
    limit %(limit)s
  ) as latest
)
select seen.id as lesson, attempts.*
from seen
join attempts on attempts.tenant = %(tenant)s and attempts.scope = %(scope)s and attempts.step = seen.step
  and attempts.occurrence = seen.occurrence and attempts.position > seen.floor
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
