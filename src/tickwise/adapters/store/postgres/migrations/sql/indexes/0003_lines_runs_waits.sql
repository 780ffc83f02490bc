-- Runs of a job that wait for an earlier one, in their order. With the line in it, in place of `runs_blocked`, which programs of the
-- release before look in.
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_waits ON tickwise.runs (job_id, ((trigger = 5)::int), due, run_id) WHERE blocked AND limit_key IS NULL;
