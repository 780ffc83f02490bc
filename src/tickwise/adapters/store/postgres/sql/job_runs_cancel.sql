-- The end of all of a job's living runs: free ones end here, held ones are asked to stop. $1 job, $2 what is said of them.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
held AS (
  INSERT INTO tickwise.cancel_requests (asked, token, holder, run_id, kind, error)
  SELECT (SELECT at FROM clock), token, holder, run_id, 'cancel', $2::text FROM tickwise.runs WHERE job_id = $1 AND holder <> 0
  ON CONFLICT (run_id) DO UPDATE SET kind = 'cancel', token = excluded.token, holder = excluded.holder, error = excluded.error
),
d AS (
  DELETE FROM tickwise.runs WHERE job_id = $1 AND holder = 0
  RETURNING due, queued, run_id, job_id, state, attempt, failures, crashes, trigger, namespace,
            CASE WHEN own THEN spec END AS definition, origin
)
INSERT INTO tickwise.history (due, queued, ended, executor, token, run_id, job_id, state, before, attempt, failures, crashes,
                              trigger, namespace, reason, error, definition, origin)
SELECT due, queued, (SELECT at FROM clock), 0, 0, run_id, job_id, 7, state, attempt, failures, crashes, trigger, namespace,
       'cancelled', $2, definition, origin
FROM d
ON CONFLICT DO NOTHING
