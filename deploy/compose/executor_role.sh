#!/bin/sh
# Makes the database role of executors, tickwise_executor, if it is missing, and sets its password to that of the secret
# postgres_executor. The role gets its rights by `tickwise db upgrade --executor-role`. PGHOST and the like name the database;
# SECRETS is the folder of the passwords.
set -eu
secrets=${SECRETS:-/run/secrets}
PGPASSWORD=$(cat "$secrets/postgres_password")
PASSWORD=$(cat "$secrets/postgres_executor")
export PGPASSWORD PASSWORD
exec psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 <<'SQL'
\getenv password PASSWORD
SELECT 'CREATE ROLE tickwise_executor' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'tickwise_executor') \gexec
ALTER ROLE tickwise_executor LOGIN PASSWORD :'password';
SQL
