"""Scenes on Cassandra: nodes and a Redis, keepers in the cast, and the log of the shard as the journal."""
