-- The kinds of task of the same jobs.
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_task_kinds ON tickwise.jobs_lasting (namespace, task_kind)
  WHERE schedule_type <> 'FUTURE' AND schedule_type <> 'IMMEDIATE';
