-- name: plan_pause
-- Skip a job's fires that are not due yet and have not begun: free ones at once, held ones when they come back. Postponed ones are held
-- back instead: free ones at once, held ones when they come back (`settle_requests`). $1 job, $2 the reason, $3 a run that is due more
-- seconds than this after its nominal time was postponed, $4 the end of the pause.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
o AS MATERIALIZED (
  SELECT run_id, state, holder, token, blocked, postponed
  FROM tickwise.runs r
  CROSS JOIN LATERAL (SELECT coalesce(date_part('epoch', r.due - r.nominal) > $3::float8, false) AS postponed) p
  WHERE job_id = $1 AND trigger = {Trigger.SCHEDULE} AND state IN ({RunState.QUEUED}, {RunState.DISPATCHED})
    AND (due > (SELECT at FROM clock) OR postponed AND NOT blocked AND ready > (SELECT at FROM clock))
    AND NOT EXISTS (SELECT FROM tickwise.attempts a WHERE a.run_id = r.run_id)
),
held AS (
  INSERT INTO tickwise.cancel_requests AS c (asked, token, holder, run_id, kind, reason, error)
  SELECT (SELECT at FROM clock), token, holder, run_id, CASE WHEN postponed THEN 'return' ELSE 'revoke' END, CASE WHEN NOT postponed THEN 'paused' END, $2::text
  FROM o WHERE state = {RunState.DISPATCHED}
  ON CONFLICT (run_id) DO UPDATE
  SET kind = excluded.kind, token = excluded.token, holder = excluded.holder, reason = excluded.reason, error = excluded.error,
      asked = excluded.asked, heard = NULL
  WHERE c.token <> excluded.token OR c.kind = 'return' OR c.kind = 'revoke' AND c.reason IS DISTINCT FROM 'requested'
),
kept AS (
  UPDATE tickwise.runs
  SET ready = greatest(due, coalesce(to_timestamp($4::float8), 'infinity')), slot = NULL, rate_key = NULL
  WHERE run_id = ANY(ARRAY(SELECT run_id FROM o WHERE state = {RunState.QUEUED} AND postponed AND NOT blocked))
),
d AS (
  DELETE FROM tickwise.runs WHERE run_id = ANY(ARRAY(SELECT run_id FROM o WHERE state = {RunState.QUEUED} AND NOT postponed))
  RETURNING due, nominal, queued, run_id, job_id, state, attempt, failures, crashes, trigger, namespace,
            CASE WHEN own THEN spec END AS definition, origin
)
INSERT INTO tickwise.history (due, nominal, queued, ended, executor, token, run_id, job_id, state, before, attempt, failures, crashes,
                              trigger, namespace, reason, error, definition, origin)
SELECT due, nominal, queued, (SELECT at FROM clock), 0, 0, run_id, job_id, {RunState.SKIPPED}, state, attempt, failures, crashes, trigger, namespace,
       'paused', $2, definition, origin
FROM d
ON CONFLICT DO NOTHING
