-- name: holds_tell
-- Request back the unstarted runs of held queues and of stops. This is repeated until a hold or a stop is a few seconds old: a claim that
-- began before it, and did not see it, may take runs after the first look.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
told AS (
  UPDATE tickwise.holds SET told = true WHERE NOT told AND begun <= (SELECT at FROM clock) - interval '5 seconds'
),
told_stops AS (
  UPDATE tickwise.stops SET told = true WHERE NOT told AND begun <= (SELECT at FROM clock) - interval '5 seconds'
),
stops AS MATERIALIZED (
  SELECT namespace, queue, labels, job_id FROM tickwise.stops
  WHERE NOT told AND begun <= (SELECT at FROM clock) AND until > (SELECT at FROM clock)
),
standing AS (
  SELECT r.run_id, r.token, r.holder
  FROM tickwise.holds h
  CROSS JOIN LATERAL (SELECT lane FROM tickwise.lanes l WHERE l.namespace = h.namespace AND l.queue = h.queue OFFSET 0) l
  CROSS JOIN LATERAL (SELECT run_id, token, holder FROM tickwise.runs r WHERE r.lane = l.lane AND r.state = {RunState.DISPATCHED} OFFSET 0) r
  WHERE NOT h.told AND h.begun <= (SELECT at FROM clock) AND h.until > (SELECT at FROM clock)
  UNION
  SELECT r.run_id, r.token, r.holder
  FROM stops s
  CROSS JOIN LATERAL (
    SELECT lane FROM tickwise.lanes l WHERE l.namespace = s.namespace AND l.queue = coalesce(s.queue, l.queue) OFFSET 0) l
  CROSS JOIN LATERAL (
    SELECT run_id, token, holder FROM tickwise.runs r
    WHERE r.lane = l.lane AND r.state = {RunState.DISPATCHED}
      AND CASE WHEN s.labels IS NULL THEN true
               ELSE (SELECT j.labels @> s.labels FROM tickwise.jobs j WHERE j.job_id = r.job_id LIMIT 1) END OFFSET 0) r
  WHERE s.job_id IS NULL
  UNION
  SELECT r.run_id, r.token, r.holder
  FROM stops s
  CROSS JOIN LATERAL (
    SELECT run_id, token, holder FROM tickwise.runs r WHERE r.job_id = s.job_id AND r.state = {RunState.DISPATCHED} OFFSET 0) r
  WHERE s.job_id IS NOT NULL
)
INSERT INTO tickwise.cancel_requests AS c (asked, token, holder, run_id, kind)
SELECT (SELECT at FROM clock), token, holder, run_id, 'return'
FROM standing
ORDER BY run_id
ON CONFLICT (run_id) DO UPDATE
SET kind = 'return', token = excluded.token, holder = excluded.holder, reason = NULL, error = NULL, asked = excluded.asked, heard = NULL
WHERE c.token <> excluded.token
