#!/bin/sh
# Runs a node of Cassandra's jars, in the foreground as `cassandra -f` does. Java 21 refuses the security manager unless it is allowed.
exec java "-Xms${MAX_HEAP_SIZE:-1G}" "-Xmx${MAX_HEAP_SIZE:-1G}" @/etc/cassandra/jvm.options -Djava.security.manager=allow \
    -Dcassandra.config=file:///etc/cassandra/cassandra.yaml -Dcassandra.storagedir=/var/lib/cassandra \
    -Dcassandra.logdir=/var/log/cassandra -Dlogback.configurationFile=/etc/cassandra/logback.xml \
    -Dcassandra-foreground=yes -cp '/opt/cassandra/lib/*' org.apache.cassandra.service.CassandraDaemon
