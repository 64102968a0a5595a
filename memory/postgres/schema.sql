-- name: lock_schema
-- One migrator at a time; the lock ends with the connection.
select pg_advisory_lock(7331905521)

-- name: set_lock_wait
-- How long a statement may wait for a lock, for the rest of the session.
select set_config('lock_timeout', %(wait)s, false)

-- name: role_exists
-- Whether the application's role is there to be granted to.
select exists (select from pg_roles where rolname = 'poimen_app') as found

-- name: vector_version
-- The version of pgvector in this database.
select (select extversion from pg_extension where extname = 'vector') as version

-- name: history_exists
-- Whether anything was ever migrated here.
select to_regclass('schema_migrations') is not null as found

-- name: create_history
-- The list of what was applied. It has no tenant.
create table if not exists schema_migrations (
  number integer primary key,
  name text not null,
  checksum text not null,
  applied_at timestamptz not null default clock_timestamp()
);
grant select on schema_migrations to poimen_app

-- name: read_history
-- What was applied, in order.
select number, name, checksum from schema_migrations order by number

-- name: add_to_history
-- Notes a migration in the transaction that applied it.
insert into schema_migrations (number, name, checksum) values (%(number)s, %(name)s, %(checksum)s)

-- name: role_of_session
-- What row-level security would not bind: a superuser, a role that bypasses it, and an owner of the tables.
select rolsuper or rolbypassrls as unbound,
  exists (
    select from pg_class
    where relname = 'journal' and relkind = 'r' and pg_has_role(current_user, relowner, 'member')
  ) as owner
from pg_roles where rolname = current_user
