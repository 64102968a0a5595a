#!/bin/sh
# Print fresh secrets for docker-compose.yml, one variable a line: sh deploy/new-secrets.sh > .env
# Hexadecimal, so that they fit a URL as they are. Changing them later does not change what PostgreSQL knows.
set -eu
umask 077
for name in POSTGRES_PASSWORD TEMPORAL_DB_PASSWORD POIMEN_OWNER_PASSWORD POIMEN_APP_PASSWORD POIMEN_MASKING_KEY OPENBAO_ROOT_TOKEN; do
  printf '%s=%s\n' "$name" "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')"
done
