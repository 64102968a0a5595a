-- name: origin_of
-- Through which entry an event came.
select origin from journal where tenant = %(tenant)s and position = %(position)s
