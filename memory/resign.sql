-- name: signed_before
-- Signatures that another version of the rules made and that stand for none of this version yet, in order of their key.
select scope, signature, kind, title, sample, first_position, first_run, first_at
from signatures
where tenant = %(tenant)s and (scope, signature) > (%(scope)s, %(signature)s)
  and not starts_with(signature, %(version)s || ':')
  and not exists (
    select from aliases
    where aliases.tenant = %(tenant)s and aliases.scope = signatures.scope
      and aliases.signature = signatures.signature and starts_with(aliases.stands_for, %(version)s || ':')
  )
order by scope, signature
limit %(limit)s

-- name: put_signed
-- Keeps what a signature of this version looks like, first seen when the earlier version's was.
insert into signatures (
  tenant, scope, signature, kind, family, title, template, sample, weak, first_position, first_run, first_at
) values (
  %(tenant)s, %(scope)s, %(key)s, %(kind)s, %(family)s, %(title)s, %(template)s, %(sample)s, %(weak)s,
  %(first_position)s, %(first_run)s, %(first_at)s
)
on conflict do nothing
