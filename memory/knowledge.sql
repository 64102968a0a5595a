-- name: lessons_of_signature
-- The lessons a failure made in a scope, in whatever step, the latest first.
select *
from items
where tenant = %(tenant)s and scope = %(scope)s and signature = %(signature)s and state = 'active'
order by updated_at desc, id
limit %(limit)s
