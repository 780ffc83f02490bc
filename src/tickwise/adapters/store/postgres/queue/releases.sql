-- name: runs_free_each
-- Set runs free whose holder is gone, or end them, each for itself. $1 runs, $2 most crashes, $3 whether it left in order.
SELECT run_id, verdict, job_id, namespace, limit_key FROM tickwise.runs_free_each($1, $2, $3)

-- name: runs_lock
-- These runs stay as they are until this transaction ends. $1 runs.
SELECT FROM tickwise.runs WHERE run_id = ANY($1::uuid[]) ORDER BY run_id FOR UPDATE

-- name: runs_lock_free
-- Those of these runs that nobody else has in hand are ours until the transaction ends. $1 runs.
SELECT run_id FROM tickwise.runs WHERE run_id = ANY($1::uuid[]) ORDER BY run_id FOR UPDATE SKIP LOCKED

-- name: runs_free
-- Set runs free whose holder is gone, or end them. $1 runs, $2 most crashes, $3 whether it left in order.
SELECT run_id, verdict, job_id, namespace, limit_key FROM tickwise.runs_free($1, $2, $3)
