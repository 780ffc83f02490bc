-- Set runs free whose holder is gone, or end them. $1 runs, $2 most crashes, $3 whether it left in order.
SELECT run_id, verdict, job_id, namespace, limit_key FROM tickwise.runs_free($1, $2, $3)
