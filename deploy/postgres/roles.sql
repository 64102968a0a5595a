-- Run once by the image, as the superuser, when the data folder is new. Passwords come from the environment.
\set ON_ERROR_STOP on
\getenv temporal_password TEMPORAL_DB_PASSWORD
\getenv owner_password POIMEN_OWNER_PASSWORD
\getenv app_password POIMEN_APP_PASSWORD

-- Temporal's own databases, which it fills itself.
CREATE ROLE temporal LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'temporal_password';
CREATE DATABASE temporal OWNER temporal;
CREATE DATABASE temporal_visibility OWNER temporal;

-- Who migrates owns the tables; who works is bound by row-level security.
CREATE ROLE poimen_owner LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'owner_password';
CREATE ROLE poimen_app LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'app_password';
CREATE DATABASE poimen OWNER poimen_owner;
REVOKE CONNECT ON DATABASE temporal, temporal_visibility, poimen FROM PUBLIC;
GRANT CONNECT ON DATABASE poimen TO poimen_app;
\connect poimen
CREATE EXTENSION IF NOT EXISTS vector;
