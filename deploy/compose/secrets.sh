#!/bin/sh
# Makes deploy/compose/secrets/: a password for each server and each of its users, the first admin key, and for each role a
# secrets.toml with what that role needs and nothing else (docs/how-to/deploy.md says who holds what).
# usage: [DATABASES=2 | STORE=cassandra] sh deploy/compose/secrets.sh [FOLDER]        What is there already is left as it is.
# DATABASES=2: for two_databases.yaml, whose second server is postgres_2. STORE=cassandra: for cassandra.yaml.
set -eu
folder=${1:-$(dirname "$0")/secrets}

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
secret() { cat "$folder/$1"; }

# Only we can go into the folder. The files in it are readable, because each container mounts its own under the number
# of another user.
mkdir -p "$folder"
chmod 0700 "$folder"
for name in postgres_password postgres_channels postgres_api postgres_search postgres_identity postgres_web postgres_scheduler \
    postgres_executor postgres_recorder grafana_password admin_key requests_key redis_password \
    kafka_owner kafka_api kafka_search kafka_scheduler kafka_executor kafka_recorder; do
    [ -s "$folder/$name" ] || random >"$folder/$name"
done

# The key that encrypts the secrets of tasks: 32 bytes. Keep a copy apart from the backups of the database.
[ -s "$folder/secrets_key" ] || head -c 32 /dev/urandom | base64 >"$folder/secrets_key"

# The key that signs tokens is one of Ed25519 in PKCS #8 (RFC 8410): 32 random bytes behind a fixed head.
if [ ! -s "$folder/token_key" ]; then
    {
        echo "-----BEGIN PRIVATE KEY-----"
        { printf '\060\056\002\001\000\060\005\006\003\053\145\160\004\042\004\040' && head -c 32 /dev/urandom; } | base64
        echo "-----END PRIVATE KEY-----"
    } >"$folder/token_key"
fi

# What the servers read. ($1: the file; the text comes from standard input.)
make() { if [ -s "$folder/$1" ]; then cat >/dev/null; else cat >"$folder/$1"; fi; }
make redis.conf <<CONF
requirepass $(secret redis_password)
CONF
for user in owner api search scheduler executor recorder; do
    echo "tickwise-$user=$(secret "kafka_$user")"
done | make kafka_users

# What the roles read. The owner of the schema migrates, and nothing else; each service has a database role of its own, which
# database_roles.sh makes.
address() { echo "postgresql://$1:$(secret "$2")@$3:5432/tickwise"; }
case ${STORE:-postgres}-${DATABASES:-1} in
    cassandra-1) login() { echo 'database_url = "cassandra://cassandra:9042/tickwise"'; } ;;
    postgres-1) login() { echo "database_url = \"$(address "$1" "$2" postgres)\""; } ;;
    postgres-2) login() { echo "database_url = \"$(address "$1" "$2" postgres) $(address "$1" "$2" postgres_2)\""; } ;;
    cassandra-* | postgres-*) echo "DATABASES is 1 or 2; more: write their addresses into secrets/*.toml" >&2 && exit 2 ;;
    *) echo "STORE is postgres or cassandra" >&2 && exit 2 ;;
esac
database() { login "tickwise_$1" "postgres_$1"; }
signals="signals_url = \"redis://:$(secret redis_password)@redis:6379/0\""
broker() { echo "broker_url = \"kafka://tickwise-$1:$(secret "kafka_$1")@kafka:9092?prefix=tickwise&sasl=SCRAM-SHA-512\""; }
sealing="secrets_key = [\"$(secret secrets_key)\"]"
requests="requests_keys = [\"$(secret requests_key)\"]"

make migrations.toml <<TOML
$(login tickwise postgres_password)
TOML
make channels.toml <<TOML
$(database channels)
$(broker owner)
TOML
# Submits, edits and cancels are answered with 202 once Kafka has them, also while PostgreSQL is down; the recorder
# applies them. With "direct" the answer is 201, and the store must be there.
make api.toml <<TOML
$(database api)
$(broker api)
$signals
ingest = "buffered"
$requests
$sealing
bootstrap_key = "$(secret admin_key)"
TOML
# "buffered" lets it answer that an accepted job is on its way (202); without it, that there is no such job (404).
make search.toml <<TOML
$(database search)
$(broker search)
$signals
ingest = "buffered"
TOML
make identity.toml <<TOML
$(database identity)
$signals
TOML
make web.toml <<TOML
$(database web)
$signals
$sealing
TOML
make scheduler.toml <<TOML
$(database scheduler)
$(broker scheduler)
$signals
$sealing
TOML
make executor.toml <<TOML
$(database executor)
$(broker executor)
$signals
$sealing
TOML
[ "${STORE:-postgres}" = postgres ] || make keeper.toml <<TOML
$(login)
TOML
make recorder.toml <<TOML
$(database recorder)
$(broker recorder)
$signals
$requests
TOML
chmod 0644 "$folder"/*
echo "$folder: $(ls "$folder" | tr '\n' ' ')"
