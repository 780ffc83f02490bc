# As the official image begins: as root it becomes postgres, an empty folder becomes a cluster, then the command runs.
set -eu
data=/var/lib/postgresql/data
if [ "$(id -u)" = 0 ]; then
    chown postgres:postgres "$data"
    exec setpriv --reuid postgres --regid postgres --init-groups sh "$0" "$@"
fi
if [ ! -s "$data/PG_VERSION" ]; then
    initdb --pgdata "$data" --username "$POSTGRES_USER" --pwfile "$POSTGRES_PASSWORD_FILE" --encoding UTF8 \
        --locale C.UTF-8 --auth-local trust --auth-host scram-sha-256
    echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
    pg_ctl --pgdata "$data" --options "-c listen_addresses=''" --wait start
    createdb --username "$POSTGRES_USER" --maintenance-db postgres "$POSTGRES_DB"
    pg_ctl --pgdata "$data" --mode fast --wait stop
fi
exec "$@" -D "$data" -c listen_addresses='*'
