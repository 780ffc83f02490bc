-- The recurring jobs with an objective of each namespace, as in 0026: a look at one namespace reads none of others.
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_objectives_of ON tickwise.jobs_lasting (namespace, job_id)
  WHERE recurring AND definition LIKE '%"objective_start_seconds":%';
