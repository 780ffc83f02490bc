#!/bin/sh
exec sh /opt/kafka/bin/kafka-run-class.sh kafka.tools.StorageTool "$@"
