#!/bin/sh
# Runs a class of Kafka's jars.
exec java ${KAFKA_HEAP_OPTS:--Xmx256m} -XX:TieredStopAtLevel=1 -cp '/opt/kafka/libs/*' "$@"
