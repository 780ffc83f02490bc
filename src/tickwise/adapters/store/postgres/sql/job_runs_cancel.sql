-- The end of all of a job's active runs: free ones end here, held ones are asked to stop. $1 job, $2 what is said of them, $3 only
-- those of this origin (NULL: all). How many there were, and the keys of which
-- those that ended were to have slots (namespaces, keys; NULL: none).
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
held AS (
  INSERT INTO tickwise.cancel_requests AS c (asked, token, holder, run_id, kind, error)
  SELECT (SELECT at FROM clock), token, holder, run_id, 'cancel', $2::text
  FROM tickwise.runs WHERE job_id = $1 AND holder <> 0 AND ($3::uuid IS NULL OR origin = $3)
  ON CONFLICT (run_id) DO UPDATE SET kind = 'cancel', reason = NULL, token = excluded.token, holder = excluded.holder, error = excluded.error,
    asked = CASE WHEN c.kind = 'cancel' AND c.token = excluded.token THEN c.asked ELSE excluded.asked END,
    heard = CASE WHEN c.kind = 'cancel' AND c.token = excluded.token THEN c.heard END
  RETURNING 1
),
d AS (
  DELETE FROM tickwise.runs WHERE job_id = $1 AND holder = 0 AND ($3::uuid IS NULL OR origin = $3)
  RETURNING due, nominal, queued, run_id, job_id, state, attempt, failures, crashes, trigger, namespace,
            CASE WHEN own THEN spec END AS definition, origin, CASE WHEN NOT blocked THEN limit_key END AS limit_key
),
h AS (
  INSERT INTO tickwise.history (due, nominal, queued, ended, executor, token, run_id, job_id, state, before, attempt, failures, crashes,
                              trigger, namespace, reason, error, definition, origin)
SELECT due, nominal, queued, (SELECT at FROM clock), 0, 0, run_id, job_id, 7, state, attempt, failures, crashes, trigger, namespace,
       'cancelled', $2, definition, origin
  FROM d
  ON CONFLICT DO NOTHING
)
SELECT (SELECT count(*) FROM held) + (SELECT count(*) FROM d), array_agg(namespace), array_agg(limit_key)
FROM d WHERE limit_key IS NOT NULL
