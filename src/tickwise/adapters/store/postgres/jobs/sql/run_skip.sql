-- name: run_skip
-- Skip one active run that has not begun: at once if no executor holds it, else when its holder gives it back. $1 run,
-- $2 namespace, $3 the reason. Returns its state afterwards, and whether this changes something; no row if it is not active.
-- If it ended: its job if a run of it waits for another one, its namespace, and the key of which it was to have a slot.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
o AS MATERIALIZED (
  SELECT run_id, state, holder, token,
         state IN ({RunState.QUEUED}, {RunState.DISPATCHED}) AND (SELECT true FROM tickwise.attempts a WHERE a.run_id = r.run_id LIMIT 1) IS NULL AS unbegun
  FROM tickwise.runs r WHERE run_id = $1 AND namespace = $2 FOR UPDATE
),
held AS (
  INSERT INTO tickwise.cancel_requests AS c (asked, token, holder, run_id, kind, reason, error)
  SELECT (SELECT at FROM clock), token, holder, run_id, 'revoke', 'requested', $3::text FROM o WHERE unbegun AND state = {RunState.DISPATCHED}
  ON CONFLICT (run_id) DO UPDATE
  SET kind = 'revoke', token = excluded.token, holder = excluded.holder, reason = excluded.reason, error = excluded.error,
      asked = excluded.asked, heard = NULL
  WHERE c.token <> excluded.token OR c.kind <> 'cancel' AND c.reason IS DISTINCT FROM 'requested'
  RETURNING run_id
),
d AS (
  DELETE FROM tickwise.runs WHERE run_id = (SELECT run_id FROM o WHERE unbegun AND state = {RunState.QUEUED})
  RETURNING due, nominal, queued, run_id, job_id, state, attempt, failures, crashes, trigger, namespace,
            CASE WHEN own THEN spec END AS definition, origin, CASE WHEN NOT blocked THEN limit_key END AS limit_key
),
h AS (
  INSERT INTO tickwise.history (due, nominal, queued, ended, executor, token, run_id, job_id, state, before, attempt, failures,
                                crashes, trigger, namespace, reason, error, definition, origin)
  SELECT due, nominal, queued, (SELECT at FROM clock), 0, 0, run_id, job_id, {RunState.SKIPPED}, state, attempt, failures, crashes, trigger,
         namespace, 'requested', $3, definition, origin
  FROM d
)
SELECT CASE WHEN unbegun AND o.state = {RunState.QUEUED} THEN {RunState.SKIPPED} ELSE o.state END AS state,
       unbegun AND o.state = {RunState.QUEUED} OR EXISTS (SELECT FROM held) AS changed,
       CASE WHEN (SELECT true FROM tickwise.runs w WHERE w.job_id = d.job_id AND w.blocked AND w.limit_key IS NULL LIMIT 1) THEN d.job_id END AS job_id, d.namespace, d.limit_key
FROM o LEFT JOIN d ON true
