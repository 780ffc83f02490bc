#!/bin/sh
# As the official image begins: as root it becomes cassandra, the settings get the address of this container, then the node runs.
set -eu
if [ "$(id -u)" = 0 ]; then
    chown -R cassandra:cassandra /var/lib/cassandra /var/log/cassandra /etc/cassandra
    exec setpriv --reuid cassandra --regid cassandra --init-groups "$0" "$@"
fi
[ "$1" = cassandra ] || exec "$@"
settings=/etc/cassandra/cassandra.yaml
address=$(hostname -i | cut -d ' ' -f 1)
# A container that starts again may have another address.
text=$(sed -e "s/@ADDRESS@/$address/" -e "s/^listen_address: .*/listen_address: $address/" \
    -e "s/^broadcast_rpc_address: .*/broadcast_rpc_address: $address/" -e "s/- seeds: .*/- seeds: \"$address\"/" "$settings")
echo "$text" >"$settings"
exec "$@"
