-- name: newest_event
-- The place of the newest event, to see that the journal answers.
select position from journal where tenant = %(tenant)s order by position desc limit 1
