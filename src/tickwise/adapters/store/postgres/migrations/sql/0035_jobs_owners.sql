-- The same of each owner.
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_owners ON tickwise.jobs_lasting (namespace, (coalesce(owner, created_by)), job_id)
  WHERE schedule_type <> 'FUTURE' AND schedule_type <> 'IMMEDIATE';
