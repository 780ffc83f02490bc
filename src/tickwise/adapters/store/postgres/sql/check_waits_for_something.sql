-- name: check_waits_for_something
-- Runs that wait for nothing. A woken run is about to take a slot; and a run in a queue on hold is woken by the first sweep after the hold,
-- which has its time. $1 page: ids after it, $2 limit. One row for each that is wrong, one at least, and in each the last that was looked
-- at, and how many were.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
still AS MATERIALIZED (
  SELECT l.lane FROM tickwise.holds h JOIN tickwise.lanes l ON l.namespace = h.namespace AND l.queue = h.queue
  WHERE h.begun <= (SELECT at FROM clock) AND h.until > (SELECT at FROM clock) - interval '60 seconds'
  UNION ALL
  SELECT l.lane FROM tickwise.stops s JOIN tickwise.lanes l ON l.namespace = s.namespace AND l.queue = coalesce(s.queue, l.queue)
  WHERE s.job_id IS NULL AND s.labels IS NULL
    AND s.begun <= (SELECT at FROM clock) AND s.until > (SELECT at FROM clock) - interval '60 seconds'
),
p AS MATERIALIZED (
  SELECT run_id AS id, job_id, namespace, limit_key, most, lane, blocked, overlap, due, trigger FROM tickwise.runs
  WHERE run_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') ORDER BY run_id LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, 'it waits for an earlier run, and there is none' AS detail, namespace FROM p
  WHERE blocked AND limit_key IS NULL AND NOT (
    SELECT count(*) > 0 FROM (
      SELECT FROM tickwise.runs e
      WHERE e.job_id = p.job_id AND (e.trigger = {Trigger.BACKFILL}) = (p.trigger = {Trigger.BACKFILL}) AND e.run_id <> p.id
        AND ((e.due, e.run_id) < (p.due, p.id) OR e.overlap < 0 OR e.overlap = {Overlap.ALLOW} AND e.state > {RunState.QUEUED}
             OR p.overlap = {Overlap.CANCEL_RUNNING} AND e.overlap = {Overlap.CANCEL_RUNNING} AND e.blocked)
      LIMIT 1) e)
  UNION ALL
  SELECT id, 'it waits for a slot of ' || limit_key || ', and one is free', namespace FROM p
  WHERE blocked AND limit_key IS NOT NULL AND (
    SELECT count(*) FROM tickwise.runs r
    WHERE r.namespace = p.namespace AND r.limit_key = p.limit_key AND NOT r.blocked
  ) < p.most AND limit_key <> 'quota' AND lane NOT IN (SELECT lane FROM still)
  UNION ALL
  SELECT id, 'it waits for the quota of runs at once of its namespace, which is not used up', namespace FROM p
  WHERE blocked AND limit_key = 'quota' AND tickwise.runs_going(namespace) + (
    SELECT count(*) FROM tickwise.runs r
    WHERE r.namespace = p.namespace AND r.limit_key = 'quota' AND NOT r.blocked AND r.state < {RunState.RUNNING}
  ) < coalesce((SELECT most FROM tickwise.run_quotas q WHERE q.namespace = p.namespace), 2147483647) AND lane NOT IN (SELECT lane FROM still)
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject
