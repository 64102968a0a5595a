-- name: retired_lessons
-- Those of some items that are lessons made from outcomes, and are retired now.
select id, scope, step, signature from items
where tenant = %(tenant)s and id = any(%(ids)s) and kind = 'lesson' and signature is not null and state = 'retired'
