-- One active run is to end: at once if nobody holds it, by request to its holder otherwise. $1 run, $2 namespace, $3 what is
-- said of it. Its state afterwards; no row if it does not live.
-- If it ended: its job if a run of it waits for another one, its namespace, and the key of which it was to have a slot.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
o AS MATERIALIZED (SELECT run_id, state, holder, token FROM tickwise.runs WHERE run_id = $1 AND namespace = $2 FOR UPDATE),
held AS (
  INSERT INTO tickwise.cancel_requests AS c (asked, token, holder, run_id, kind, error)
  SELECT (SELECT at FROM clock), token, holder, run_id, 'cancel', $3::text FROM o WHERE holder <> 0
  ON CONFLICT (run_id) DO UPDATE SET kind = 'cancel', reason = NULL, token = excluded.token, holder = excluded.holder, error = excluded.error,
    asked = CASE WHEN c.kind = 'cancel' AND c.token = excluded.token THEN c.asked ELSE excluded.asked END,
    heard = CASE WHEN c.kind = 'cancel' AND c.token = excluded.token THEN c.heard END
),
d AS (
  DELETE FROM tickwise.runs WHERE run_id = (SELECT run_id FROM o WHERE holder = 0)
  RETURNING due, nominal, queued, run_id, job_id, state, attempt, failures, crashes, trigger, namespace,
            CASE WHEN own THEN spec END AS definition, origin, CASE WHEN NOT blocked THEN limit_key END AS limit_key
),
h AS (
  INSERT INTO tickwise.history (due, nominal, queued, ended, executor, token, run_id, job_id, state, before, attempt, failures, crashes,
                                trigger, namespace, reason, error, definition, origin)
  SELECT due, nominal, queued, (SELECT at FROM clock), 0, 0, run_id, job_id, 7, state, attempt, failures, crashes, trigger, namespace,
         'cancelled', $3, definition, origin
  FROM d
)
SELECT CASE WHEN holder = 0 THEN 7 ELSE o.state END,
       CASE WHEN (SELECT true FROM tickwise.runs w WHERE w.job_id = d.job_id AND w.blocked AND w.limit_key IS NULL LIMIT 1) THEN d.job_id END AS job_id, d.namespace, d.limit_key
FROM o LEFT JOIN d ON true
