-- name: job_is_busy
-- Check whether a job has an unfinished run, or one whose end has yet to start others. $1 job.
SELECT EXISTS (SELECT FROM tickwise.runs WHERE job_id = $1) OR EXISTS (
  SELECT FROM tickwise.follows f
  WHERE (SELECT h.job_id = $1 FROM tickwise.history h WHERE h.run_id = f.run_id OFFSET 0))

-- name: job_transfer
-- Move a job to another namespace; what its timer was held back by is asked anew. $1 job, $2 namespace, $3 its lane there.
WITH j AS (
  UPDATE tickwise.jobs
  SET namespace = $2, lane = $3, version = version + 1, updated = tickwise.now(), task_changed = coalesce(task_changed, updated)
  WHERE job_id = $1
),
p AS (UPDATE tickwise.jobs_placed SET namespace = $2 WHERE job_id = $1)
UPDATE tickwise.timers SET due = tickwise.now()
WHERE job_id = $1 AND hold IN ('calendar', 'maintenance') AND due > tickwise.now()
