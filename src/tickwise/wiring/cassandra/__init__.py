"""The commands on a Cassandra cluster: make its keyspace, look at it, and refuse what is not built yet."""
