-- name: run_of_workflow
-- The latest run that a workflow id reported; an id that was used again means its latest use.
select run from journal
where tenant = %(tenant)s and workflow_id = %(workflow_id)s and run is not null
order by position desc
limit 1

-- name: run_of_steps
-- The latest run whose steps reported under RUN/STEP, for a run that has not reported by itself yet.
select run from journal
where tenant = %(tenant)s and starts_with(workflow_id, %(beginning)s) and run is not null
order by position desc
limit 1

-- name: deliveries
-- What was delivered to the attempts of a run.
select * from receipts
where tenant = %(tenant)s and run = %(run)s and step is not null
order by step, visit, attempt, recorded_at

