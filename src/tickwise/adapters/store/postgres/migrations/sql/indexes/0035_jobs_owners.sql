-- The owners of the same jobs.
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_owners ON tickwise.jobs_lasting (namespace, (coalesce(owner, created_by)))
  WHERE schedule_type <> 'FUTURE' AND schedule_type <> 'IMMEDIATE';
