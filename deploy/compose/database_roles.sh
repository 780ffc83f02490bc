#!/bin/sh
# Makes the database roles of the services, if they are missing: tickwise_NAME for each secret postgres_NAME, whose text becomes
# its password. The roles get their rights by `tickwise db upgrade --service-role … --executor-role …`. The script logs in as the
# owner, by the secret postgres_password. PGHOST and the like name the database; SECRETS is the folder of the passwords.
set -eu
secrets=${SECRETS:-/run/secrets}
PGPASSWORD=$(cat "$secrets/postgres_password")
export PGPASSWORD
for file in "$secrets"/postgres_*; do
    name=${file##*/postgres_}
    [ "$name" != password ] || continue
    ROLE=tickwise_$name PASSWORD=$(cat "$file")
    export ROLE PASSWORD
    psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 <<'SQL'
\getenv role ROLE
\getenv password PASSWORD
SELECT format('CREATE ROLE %I', :'role') WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'role') \gexec
ALTER ROLE :"role" LOGIN PASSWORD :'password';
SQL
done
