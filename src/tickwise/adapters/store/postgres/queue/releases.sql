-- name: runs_free_each
-- Free the runs whose holder is gone, or end them, each for itself. $1 runs, $2 most crashes, $3 whether it left in order.
SELECT run_id, verdict, job_id, namespace, limit_key FROM tickwise.runs_free_each($1, $2, $3)

-- name: runs_lock
-- Lock these runs until this transaction ends. $1 runs.
SELECT FROM tickwise.runs WHERE run_id = ANY($1::uuid[]) ORDER BY run_id FOR UPDATE

-- name: runs_lock_free
-- Lock those of these runs that no other transaction has locked. $1 runs.
SELECT run_id FROM tickwise.runs WHERE run_id = ANY($1::uuid[]) ORDER BY run_id FOR UPDATE SKIP LOCKED

-- name: runs_free
-- Free the runs whose holder is gone, or end them. $1 runs, $2 most crashes, $3 whether it left in order.
SELECT run_id, verdict, job_id, namespace, limit_key FROM tickwise.runs_free($1, $2, $3)

-- name: runs_asked_back
-- Those of these runs that have not begun and that a pause requests back. $1 runs.
SELECT r.run_id FROM tickwise.runs r
JOIN tickwise.cancel_requests c ON c.run_id = r.run_id AND c.holder = r.holder AND c.token = r.token
WHERE r.run_id = ANY($1::uuid[]) AND r.state = {RunState.DISPATCHED} AND c.kind = 'return' AND c.error IS NOT NULL

-- name: runs_hold_back
-- Keep free runs that a pause requested back from being claimed before its end. $1 runs.
UPDATE tickwise.runs r SET ready = greatest(r.due, coalesce(j.pause_until, 'infinity'))
FROM tickwise.jobs j
WHERE r.run_id = ANY($1::uuid[]) AND r.holder = 0 AND r.state = {RunState.QUEUED}
  AND j.job_id = r.job_id AND j.standing = {JobStanding.PAUSED} AND (j.pause_until IS NULL OR j.pause_until > (SELECT tickwise.now()))
