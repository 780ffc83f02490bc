-- The active runs of a job. Those that may run beside others (ALLOW) are found apart from the many that may wait: a run of another policy
-- asks for them at its start. It takes the place of `runs_job`, which serves the same searches by job alone.
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_of_job ON tickwise.runs (job_id, overlap);
