-- The groups of one job, counted before it gets a further one.
CREATE INDEX CONCURRENTLY IF NOT EXISTS error_jobs_job ON tickwise.error_jobs (job_id);
