-- name: seen_signature
-- What a failure looked like when it was first seen in a scope; the latest version of its signature first.
select *
from signatures
where tenant = %(tenant)s and scope = %(scope)s and signature = any(%(signatures)s)
order by array_position(%(signatures)s::text[], signature)
limit 1

-- name: signatures_alike
-- The signatures that mean one failure in a scope: the asked ones, those they stand for, and all that stand for those.
with roots as (
  select root from aliases
  where tenant = %(tenant)s and scope = %(scope)s and signature = any(%(signatures)s) and ended_position is null
  union
  select unnest(%(signatures)s::text[])
)
select root as signature from roots
union
select aliases.signature
from roots
join aliases on aliases.tenant = %(tenant)s and aliases.scope = %(scope)s and aliases.root = roots.root
  and aliases.ended_position is null

-- name: same_failure
-- What the steps of a scope learned of one failure, and what the library says of it: the asked step's first, then the
-- latest. Lessons of one step whose signatures stand for each other tell the same, so one of them is enough.
select *
from (
  select distinct on (scope, kind, step) *
  from items
  where tenant = %(tenant)s and scope = any(%(scopes)s) and signature = any(%(alike)s) and state = 'active'
  order by scope, kind, step, (signature = any(%(signatures)s)) desc, updated_at desc, id
) as told
order by coalesce(step = %(step)s, false) desc, updated_at desc, id
limit %(limit)s

-- name: relatives
-- What the steps of a scope learned of other failures of the same family, the latest first. The family of a signature
-- that comes without its text is read from where it was seen.
select items.*
from signatures as relative
join items on items.tenant = %(tenant)s and items.scope = %(scope)s and items.signature = relative.signature
where relative.tenant = %(tenant)s and relative.scope = %(scope)s
  and relative.family = coalesce(
    %(family)s::text,
    (
      select family from signatures
      where tenant = %(tenant)s and scope = %(scope)s and signature = any(%(signatures)s)
      limit 1
    )
  )
  and relative.signature <> all(%(alike)s) and items.state = 'active'
order by items.updated_at desc, items.id
limit %(limit)s
