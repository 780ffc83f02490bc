#!/bin/sh
# Starts the Kafka of the stack. The first start makes its data folder, with a user for each line of the secret kafka_users
# (NAME=PASSWORD). Later passwords are changed with kafka-configs.sh, by 127.0.0.1:9094 inside of the container.
set -eu
properties=/etc/kafka/tickwise.properties
set --
while IFS='=' read -r user password; do
    set -- "$@" --add-scram "SCRAM-SHA-512=[name=$user,password=$password]"
done </run/secrets/kafka_users
/opt/kafka/bin/kafka-storage.sh format --ignore-formatted --config "$properties" --cluster-id dGlja3dpc2UtY29tcG9zZS0x "$@"
exec /opt/kafka/bin/kafka-server-start.sh "$properties"
