# As the official image begins: as root it becomes redis.
set -eu
if [ "$(id -u)" = 0 ]; then
    exec setpriv --reuid redis --regid redis --clear-groups sh "$0" "$@"
fi
exec "$@"
