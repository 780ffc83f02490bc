-- One-time jobs, apart: a look for those that are still to run reads none of the jobs that stay.
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_secrets_once ON tickwise.jobs_lasting USING gin (secrets) WITH (gin_pending_list_limit = 64)
  WHERE secrets IS NOT NULL AND NOT recurring AND schedule_type <> 'ON_DEMAND';
