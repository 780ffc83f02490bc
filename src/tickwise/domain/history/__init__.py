"""The history checker: compares what clients, tasks, journal and records say, and finds each broken promise."""
