-- One run, active or ended. $1 run, $2 namespace.
SELECT run_id, job_id, namespace, state, trigger, due_at, queued_at, dispatched_at, started_at, ended_at, ready_at, attempt,
       failures, crashes, executor, reason, error, result, origin, definition, nominal_at, blocked, limit_key, paced,
       cancel_asked, cancel_heard, cancel_error, occurrences, until
FROM tickwise.runs_shown WHERE run_id = $1 AND namespace = $2
