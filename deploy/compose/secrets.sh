#!/bin/sh
# Makes deploy/compose/secrets/: a password for each server, the first admin key, and secrets.toml for the roles.
# usage: sh deploy/compose/secrets.sh [FOLDER]        What is there already is left as it is.
set -eu
folder=${1:-$(dirname "$0")/secrets}

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

# Only we can go into the folder. The files in it are readable, because each container mounts its own under the number
# of another user.
mkdir -p "$folder"
chmod 0700 "$folder"
for name in postgres_password grafana_password admin_key; do
    [ -s "$folder/$name" ] || random >"$folder/$name"
done
if [ ! -s "$folder/secrets.toml" ]; then
    cat >"$folder/secrets.toml" <<TOML
database_url = "postgresql://tickwise:$(cat "$folder/postgres_password")@postgres:5432/tickwise"
bootstrap_key = "$(cat "$folder/admin_key")"
TOML
fi
chmod 0644 "$folder"/*
echo "$folder: $(ls "$folder" | tr '\n' ' ')"
