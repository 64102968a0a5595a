-- name: put_signature
-- Keeps what a signature looked like when it was first seen in a scope.
insert into signatures (
  tenant, scope, signature, kind, family, title, template, sample, weak, first_position, first_run, first_at
) values (
  %(tenant)s, %(scope)s, %(signature)s, %(kind)s, %(family)s, %(title)s, %(template)s, %(sample)s, %(weak)s,
  %(position)s, %(run)s, %(recorded_at)s
)
on conflict do nothing
