#!/bin/sh
export KAFKA_HEAP_OPTS=-Xmx64m 
exec sh /opt/kafka/bin/kafka-run-class.sh org.apache.kafka.tools.BrokerApiVersionsCommand "$@"
