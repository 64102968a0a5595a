-- Run by the superuser at every start, through psql; doing it again changes nothing.
SELECT 'CREATE ROLE poimen_owner' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'poimen_owner') \gexec
SELECT 'CREATE ROLE poimen_app' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'poimen_app') \gexec
ALTER ROLE poimen_owner LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'owner_password';
ALTER ROLE poimen_app LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'app_password';
SELECT 'CREATE DATABASE poimen OWNER poimen_owner' WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'poimen') \gexec
\connect poimen
CREATE EXTENSION IF NOT EXISTS vector;
