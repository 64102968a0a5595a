-- name: put_receipt
-- Keeps what was delivered to one attempt.
insert into receipts (
  tenant, package_id, scope, run, branch, step, visit, attempt, item_ids, prevention, empty_reason, tiers, position
) values (
  %(tenant)s, %(package_id)s, %(scope)s, %(run)s, %(branch)s, %(step)s, %(visit)s, %(attempt)s, %(item_ids)s,
  %(prevention)s, %(empty_reason)s, %(tiers)s, %(position)s
)
