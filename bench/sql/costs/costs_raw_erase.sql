-- Old rows of history, one by one. $1 runs.
DELETE FROM raw.history WHERE run_id = ANY ($1::uuid[]);
