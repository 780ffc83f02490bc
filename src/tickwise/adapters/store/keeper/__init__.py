"""A store that is a state machine in memory with a log of its effects: what a shard's owner runs. No database in it."""
