-- name: put_outcome
-- Keeps how a step execution began and ended; its first report counts.
insert into step_outcomes (
  tenant, scope, step, run, branch, visit, environment, prevented_by, prevented_signature, first_signature, ended,
  position, recorded_at
) values (
  %(tenant)s, %(scope)s, %(step)s, %(run)s, %(branch)s, %(visit)s, %(environment)s, %(prevented_by)s,
  %(prevented_signature)s, %(first_signature)s, %(ended)s, %(position)s, %(recorded_at)s
)
on conflict do nothing
