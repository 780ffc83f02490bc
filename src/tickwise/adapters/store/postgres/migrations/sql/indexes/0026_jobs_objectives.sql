-- The recurring jobs with an objective, found without a column: most jobs have none, and a job that is made pays a look at its text, if it
-- recurs. The text of a payload may look alike; a reader looks again.
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_objectives ON tickwise.jobs_lasting (job_id)
  WHERE recurring AND definition LIKE '%"objective_start_seconds":%';
