-- The newest runs of another namespace: they have an index. $1 namespace, $2 ids below it, $3 limit. Planned once.
SELECT run_id, job_id, namespace, state, trigger, due_at, queued_at, dispatched_at, started_at, ended_at, ready_at, attempt,
       failures, crashes, executor, reason, error, result, origin, definition, nominal_at, blocked, limit_key, paced,
       cancel_asked, cancel_heard, cancel_error, occurrences, until
FROM tickwise.runs_shown
WHERE namespace = $1 AND namespace <> 'default' AND run_id < $2
ORDER BY run_id DESC LIMIT $3
