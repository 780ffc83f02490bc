-- The same with each kind of task.
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_task_kinds ON tickwise.jobs_lasting (namespace, task_kind, job_id)
  WHERE schedule_type <> 'FUTURE' AND schedule_type <> 'IMMEDIATE';
