"""What a task can do to its machine at each level of isolation: attacks as data, sent as jobs."""
