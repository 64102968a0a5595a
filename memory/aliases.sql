-- name: lock_aliases
-- One writer of a scope's aliases at a time, so that two of them cannot close a circle together.
select pg_advisory_xact_lock(hashtextextended(%(tenant)s || chr(31) || %(scope)s, 7331905522))

-- name: signatures_like
-- The signatures on record that begin so, in one scope or in all of the tenant's.
select scope, signature, title
from signatures
where tenant = %(tenant)s and starts_with(signature, %(beginning)s) and scope = coalesce(%(scope)s, scope)
order by scope, signature
limit 20

-- name: alias_in_force
-- What a signature stands for now.
select * from aliases
where tenant = %(tenant)s and scope = %(scope)s and signature = %(signature)s and ended_position is null

-- name: aliases_in_force
-- Every alias, the latest first, in one scope or in all of the tenant's.
select * from aliases
where tenant = %(tenant)s and scope = coalesce(%(scope)s, scope) and ended_position is null
order by position desc
limit %(limit)s

-- name: put_alias
-- Lets a signature stand for another.
insert into aliases (tenant, scope, signature, stands_for, root, reason, principal, origin, position, made_at)
values (
  %(tenant)s, %(scope)s, %(signature)s, %(stands_for)s, %(root)s, %(reason)s, %(principal)s, %(origin)s,
  %(position)s, %(recorded_at)s
)

-- name: lead_on
-- What stood for the signature stands for its root from now on.
update aliases set root = %(root)s
where tenant = %(tenant)s and scope = %(scope)s and root = %(signature)s and ended_position is null

-- name: end_alias
-- Lets a signature stand for itself again.
update aliases set ended_position = %(position)s, ended_at = %(recorded_at)s
where tenant = %(tenant)s and scope = %(scope)s and signature = %(signature)s and ended_position is null

-- name: lead_back
-- What stood for the signature, through however many others, ends at it again.
with recursive below as (
  select signature from aliases
  where tenant = %(tenant)s and scope = %(scope)s and stands_for = %(signature)s and ended_position is null
  union
  select aliases.signature
  from below
  join aliases on aliases.tenant = %(tenant)s and aliases.scope = %(scope)s
    and aliases.stands_for = below.signature and aliases.ended_position is null
)
update aliases set root = %(signature)s
where tenant = %(tenant)s and scope = %(scope)s and ended_position is null
  and signature in (select signature from below)
