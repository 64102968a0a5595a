-- name: lessons_of_signature
-- The lessons a failure made in a scope, in whatever step and by whichever version of its signature, the latest first.
select *
from items
where tenant = %(tenant)s and scope = %(scope)s and signature = any(%(signatures)s) and state = 'active'
order by updated_at desc, id
limit %(limit)s
