-- Runs whose end starts others, the oldest first. $1 limit.
SELECT f.succeeded, r.*
FROM (SELECT since, run_id, succeeded FROM tickwise.follows ORDER BY since, run_id LIMIT $1) f
CROSS JOIN LATERAL (
  SELECT run_id, job_id, namespace, state, trigger, due_at, queued_at, dispatched_at, started_at, ended_at, ready_at, attempt, failures,
         crashes, executor, reason, error, result, origin, definition, nominal_at, blocked, limit_key, paced, cancel_asked, cancel_heard,
         cancel_error, occurrences, until
  FROM tickwise.runs_shown s WHERE s.run_id = f.run_id OFFSET 0) r
ORDER BY f.since, f.run_id
