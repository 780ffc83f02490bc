-- The jobs that stay by the secrets that they name. A short list of pending entries, for each look reads it whole.
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_secrets ON tickwise.jobs_lasting USING gin (secrets) WITH (gin_pending_list_limit = 64)
  WHERE secrets IS NOT NULL AND (recurring OR schedule_type = 'ON_DEMAND');
