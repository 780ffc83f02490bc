-- End a batch, and keep nothing of it.
DELETE FROM raw.runs WHERE run_id = ANY ($1::uuid[]) AND holder = 1;
