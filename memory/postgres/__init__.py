"""Postgres: connections, the tenant's transaction, named queries and migrations. Nothing else imports the driver."""

from memory.postgres.migrate import migrate, pending
from memory.postgres.pool import Pool
from memory.postgres.queries import load_queries
from memory.postgres.startup import check_database
from memory.postgres.transaction import Row, Statement, Transaction, jsonb, statement, tenant_transaction
from memory.postgres.wakeup import listen

__all__ = [
    "Pool",
    "Row",
    "Statement",
    "Transaction",
    "check_database",
    "jsonb",
    "listen",
    "load_queries",
    "migrate",
    "pending",
    "statement",
    "tenant_transaction",
]
