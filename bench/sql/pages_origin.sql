-- The instant that the making of all jobs is counted from. $1.
INSERT INTO bench.origin VALUES ($1)
