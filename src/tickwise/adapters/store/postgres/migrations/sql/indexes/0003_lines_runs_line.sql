-- Runs of a job that do not wait for each other, those that were let start apart from those that are yet to be settled: what a run that
-- wants to begin looks for, whatever the number of those that wait. The ordinary run of a one-time job is not in it.
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_line ON tickwise.runs (job_id, ((trigger = 5)::int), ((overlap > 0)::int), due, run_id)
WHERE (NOT blocked OR limit_key IS NOT NULL) AND (overlap <> 0 OR trigger <> 1);
