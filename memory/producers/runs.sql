-- name: run_decisions
-- Where the ends of a run's steps, its gates and its own end are on record, in order; of a run of very many, the last.
select position
from (
  select position
  from journal
  where tenant = %(tenant)s and run = %(run)s and scope = %(scope)s and kind = 'decision_documented'
    and payload ->> 'kind' in ('step_completion', 'gate', 'run_final')
  order by position desc
  limit %(limit)s
) as latest
order by position

-- name: run_artifacts
-- What a run's steps left behind, by name, the latest first.
select artifact
from (
  select position, payload -> 'artifacts' as artifacts
  from journal
  where tenant = %(tenant)s and run = %(run)s and scope = %(scope)s and kind = 'execution_learned'
    and payload @? '$.artifacts[*]'
  order by position desc
  limit 100
) as learned
cross join lateral jsonb_array_elements_text(artifacts) as named (artifact)
group by artifact
order by max(position) desc, artifact
limit %(limit)s
