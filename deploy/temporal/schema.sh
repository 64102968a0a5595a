#!/bin/sh
# Bring Temporal's two databases, which deploy/postgres/roles.sql made, to the schema of this image. Doing it again
# changes nothing. The password is in SQL_PASSWORD.
set -eu
schema=/etc/temporal/schema/postgresql/v12

tool() {
  temporal-sql-tool --plugin postgres12 --endpoint postgres --port 5432 --user temporal "$@"
}

for pair in temporal:temporal temporal_visibility:visibility; do
  database=${pair%%:*}
  tool --database "$database" setup-schema --version 0.0
  tool --database "$database" update-schema --schema-dir "$schema/${pair#*:}/versioned"
done
