-- name: items_of_notes
-- The items made from notes that are not retired.
select id from items
where tenant = %(tenant)s and level = 'R' and origin in ('import', 'vault-editor') and state <> 'retired'
