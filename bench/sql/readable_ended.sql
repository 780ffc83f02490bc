-- The states of the runs of a partition of the readable tables in Cassandra.
SELECT state FROM runs WHERE namespace = 'default' AND hour = '{hour}' AND part = {part}
