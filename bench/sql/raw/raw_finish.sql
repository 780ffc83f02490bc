-- End a batch: fenced delete, and one history row each.
WITH d AS (DELETE FROM raw.runs WHERE run_id = ANY ($1::uuid[]) AND holder = 1 RETURNING run_id, job_id)
INSERT INTO raw.history SELECT run_id, job_id, statement_timestamp(), statement_timestamp(), 5 FROM d;
