-- name: seen_signature
-- What a failure looked like when it was first seen in a scope.
select *
from signatures
where tenant = %(tenant)s and scope = %(scope)s and signature = %(signature)s

-- name: same_failure
-- What the steps of a scope learned of one failure, and what the library says of it: the asked step's first, then the
-- latest.
select items.*
from items
where tenant = %(tenant)s and scope = any(%(scopes)s) and signature = %(signature)s and state = 'active'
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
      where tenant = %(tenant)s and scope = %(scope)s and signature = %(signature)s
    )
  )
  and relative.signature <> %(signature)s and items.state = 'active'
order by items.updated_at desc, items.id
limit %(limit)s
