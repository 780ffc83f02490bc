-- name: settle_requests
-- Settle the requests on runs that came back free: cancelled ones end now; revoked ones that never began are recorded as skipped if there
-- is a reason to give, else forgotten. A run that was only to be given back stays, and is held back if its job is paused, unless it had
-- begun. $1 runs, $2 those of them that had begun. Returns how many were removed, the jobs of these in which a run waits for another one,
-- and the keys of their reserved slots (namespaces, keys); NULL: none.
WITH c AS MATERIALIZED (
  DELETE FROM tickwise.cancel_requests WHERE run_id = ANY($1::uuid[]) RETURNING run_id, kind, reason, error, asked, heard),
d AS (
  DELETE FROM tickwise.runs
  WHERE run_id = ANY(ARRAY(SELECT run_id FROM c)) AND holder = 0
    AND CASE (SELECT kind FROM c WHERE c.run_id = runs.run_id)
        WHEN 'cancel' THEN true WHEN 'revoke' THEN state = {RunState.QUEUED} AND NOT run_id = ANY($2::uuid[]) ELSE false END
  RETURNING due, nominal, queued, run_id, job_id, state, attempt, failures, crashes, trigger, namespace,
            CASE WHEN own THEN spec END AS definition, origin, CASE WHEN NOT blocked THEN limit_key END AS limit_key
),
k AS (
  UPDATE tickwise.runs r SET ready = greatest(r.due, coalesce(j.pause_until, 'infinity'))
  FROM tickwise.jobs j
  WHERE r.run_id = ANY(ARRAY(SELECT run_id FROM c WHERE kind = 'return' AND error IS NOT NULL)) AND r.holder = 0 AND r.state = {RunState.QUEUED}
    AND NOT r.run_id = ANY($2::uuid[])
    AND j.job_id = r.job_id AND j.standing = {JobStanding.PAUSED} AND (j.pause_until IS NULL OR j.pause_until > (SELECT tickwise.now()))
),
h AS (
  INSERT INTO tickwise.history (due, nominal, queued, ended, executor, token, run_id, job_id, state, before, attempt, failures,
                                crashes, trigger, namespace, reason, error, definition, origin, cancel_asked, cancel_heard, cancel_error)
  SELECT d.due, d.nominal, d.queued, tickwise.now(), 0, 0, d.run_id, d.job_id, CASE c.kind WHEN 'cancel' THEN {RunState.CANCELLED} ELSE {RunState.SKIPPED} END,
         d.state, d.attempt, d.failures, d.crashes, d.trigger, d.namespace, coalesce(c.reason, 'cancelled'), c.error,
         d.definition, d.origin, CASE c.kind WHEN 'cancel' THEN c.asked END, CASE c.kind WHEN 'cancel' THEN c.heard END,
         CASE c.kind WHEN 'cancel' THEN c.error END
  FROM d JOIN c USING (run_id) WHERE c.kind = 'cancel' OR c.reason IS NOT NULL
  ON CONFLICT DO NOTHING
)
SELECT count(*), array_agg(job_id) FILTER (WHERE waits), array_agg(namespace) FILTER (WHERE limit_key IS NOT NULL),
       array_agg(limit_key) FILTER (WHERE limit_key IS NOT NULL)
FROM (
  SELECT d.*, (SELECT true FROM tickwise.runs w WHERE w.job_id = d.job_id AND w.blocked AND w.limit_key IS NULL LIMIT 1) AS waits FROM d) d
