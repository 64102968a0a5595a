-- name: scopes
-- The scopes that have something to deliver, the latest first.
select scope from items
where tenant = %(tenant)s and state = 'active'
group by scope
order by max(updated_at) desc, scope
limit %(limit)s
