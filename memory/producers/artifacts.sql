-- name: marked_artifacts
-- What a run's steps left behind and marked for the index, each verified by its step.
select artifact
from journal
cross join lateral jsonb_array_elements_text(payload -> 'indexed') as marked (artifact)
where tenant = %(tenant)s and run = %(run)s and scope = %(scope)s and kind = 'execution_learned'
  and payload @? '$.indexed[*]' and payload ->> 'outcome' = 'succeeded' and artifact is not null
group by artifact
order by min(position), artifact
limit %(limit)s

-- name: healthy_runs
-- The runs that ended well and share an artifact, the latest first, with what its step said of it; of what was marked
-- in a scope the latest is looked through.
select distinct on (learned.run) learned.run, learned.step, learned.payload, learned.position,
  final.payload ->> 'definition' as definition
from (
  select run, step, payload, position
  from journal
  where tenant = %(tenant)s and scope = %(scope)s and kind = 'execution_learned' and payload @? '$.indexed[*]'
    and run is not null
  order by position desc
  limit %(limit)s
) as learned
join journal as final on final.tenant = %(tenant)s and final.run = learned.run
  and final.kind = 'decision_documented' and final.payload ->> 'kind' = 'run_final'
  and final.payload ->> 'end' = 'succeeded'
where learned.payload -> 'indexed' ? %(artifact)s and learned.payload ->> 'outcome' = 'succeeded'
order by learned.run, learned.position desc
