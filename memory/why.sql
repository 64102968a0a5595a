-- name: runs_of_workflow
-- The runs that a workflow id reported, the one that began last first: a record may be delivered long after its run, so
-- a run is as old as its first event. A foreign workflow reports all its steps under its id: those of long ago are left
-- out, so that asking stays cheap.
select latest.run
from (
  select distinct run
  from (
    select run from journal
    where tenant = %(tenant)s and workflow_id = %(workflow_id)s and run is not null
    order by position desc
    limit 1000
  ) as reported
) as latest
cross join lateral (
  select position from journal
  where tenant = %(tenant)s and run = latest.run
  order by position
  limit 1
) as began
order by began.position desc
limit 10

-- name: run_of_steps
-- The run that began last of those whose steps reported under RUN/STEP, for a run that has not reported by itself yet.
-- Each id below RUN/ is found from the one before it and asked for its latest events, so that what they all recorded is
-- never read.
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
from (
  select distinct reported.run
  from below
  cross join lateral (
    select run from journal
    where tenant = %(tenant)s and workflow_id = below.workflow_id and run is not null
    order by position desc
    limit 20
  ) as reported
) as latest
cross join lateral (
  select position from journal
  where tenant = %(tenant)s and run = latest.run
  order by position
  limit 1
) as began
order by began.position desc
limit 1

-- name: deliveries
-- What was delivered to the attempts of a run.
select * from receipts
where tenant = %(tenant)s and run = %(run)s and step is not null
order by step, branch nulls first, visit, attempt, recorded_at

