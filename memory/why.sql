-- name: run_of_workflow
-- The latest run that a workflow id reported; an id that was used again means its latest use.
select run from journal
where tenant = %(tenant)s and workflow_id = %(workflow_id)s and run is not null
order by position desc
limit 1

-- name: runs_of_workflow
-- The latest runs that a workflow id reported. A foreign workflow reports all its steps under its id: those of long ago
-- are left out, so that asking stays cheap.
select run from (
  select run, position from journal
  where tenant = %(tenant)s and workflow_id = %(workflow_id)s and run is not null
  order by position desc
  limit 1000
) as latest
group by run
order by max(position) desc
limit 10

-- name: run_of_steps
-- The latest run whose steps reported under RUN/STEP, for a run that has not reported by itself yet. Each id below RUN/
-- is found from the one before it and asked for its latest event, so that what they all recorded is never read.
with recursive below (workflow_id) as (
  (
    select workflow_id
    from journal
    where tenant = %(tenant)s
      and workflow_id ~>=~ %(beginning)s and workflow_id ~<~ (%(beginning)s || chr(1114111))
    order by workflow_id using ~<~
    limit 1
  )
  union all
  select (
    select journal.workflow_id
    from journal
    where tenant = %(tenant)s
      and journal.workflow_id ~>~ below.workflow_id and journal.workflow_id ~<~ (%(beginning)s || chr(1114111))
    order by journal.workflow_id using ~<~
    limit 1
  )
  from below
  where below.workflow_id is not null
)
select latest.run
from below
cross join lateral (
  select run, position
  from journal
  where tenant = %(tenant)s and workflow_id = below.workflow_id and run is not null
  order by position desc
  limit 1
) as latest
order by latest.position desc
limit 1

-- name: deliveries
-- What was delivered to the attempts of a run.
select * from receipts
where tenant = %(tenant)s and run = %(run)s and step is not null
order by step, branch nulls first, visit, attempt, recorded_at

