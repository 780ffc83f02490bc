#!/bin/sh
# Replaces the image of a stack that runs, without a pause: the schema first, then of each service new containers beside the old
# ones, and once they are healthy the old ones end, one after the other. A run that an old executor has may end there, for
# drain_seconds.
# usage: [STORE=cassandra] sh deploy/compose/upgrade.sh IMAGE           (later `docker compose` commands need IMAGE_TICKWISE=IMAGE as well)
# Back to the image before: the same command with that image.
set -eu
IMAGE_TICKWISE=${1:?"usage: upgrade.sh IMAGE"}
export IMAGE_TICKWISE
# nginx asks for the addresses of a service again after so many seconds (`valid=` in nginx.conf): until then it may know no new one.
names_seconds=6

if docker compose version >/dev/null 2>&1; then set -- docker compose; else set -- docker-compose; fi
set -- "$@" --file "$(dirname "$0")/compose.yaml"
# Executors before the API: docs/how-to/deploy.md. Keepers before all that ask them: docs/how-to/cassandra.md.
services="recorder scheduler executor identity search web api"
case ${STORE:-postgres} in
    postgres) ;;
    cassandra) set -- "$@" --file "$(dirname "$0")/cassandra.yaml" && services="keeper $services" ;;
    *) echo "STORE is postgres or cassandra" >&2 && exit 2 ;;
esac
"$@" run --rm --no-deps -T migrations
"$@" run --rm --no-deps -T channels
# `up` starts these two again before each service that depends on them: with this image, not with the one before.
"$@" rm --force migrations channels >/dev/null

for service in $services; do
    old=$("$@" ps --quiet "$service")
    count=$(echo "$old" | wc -w)
    echo "$service: $count beside $count"
    # Not with --no-deps: what a container depends on is part of its hash in Compose 2.26, and a hash without it would make the
    # next `up` replace each container.
    "$@" up --detach --no-recreate --wait --scale "$service=$((2 * count))" "$service"
    sleep "$names_seconds"
    for container in $old; do
        docker stop "$container" >/dev/null
        docker rm "$container" >/dev/null
        sleep "$names_seconds"
    done
done
"$@" ps
