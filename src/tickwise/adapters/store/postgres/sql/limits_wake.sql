-- As many of the runs that wait for a slot of these keys are claimable as there are free slots, the earliest first; how many.
-- $1 namespaces, $2 keys, which this transaction has locked (`limits_lock`). A run that was woken within the last seconds, and has not
-- begun, is about to take a slot. One that somebody else has in hand just now is left to the next sweep.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
n AS MATERIALIZED (
  SELECT n.namespace, n.limit_key,
         greatest((SELECT l.most FROM tickwise.limits l WHERE l.namespace = n.namespace AND l.limit_key = n.limit_key), 1)
         - (SELECT count(*) FROM tickwise.runs r
            WHERE r.namespace = n.namespace AND r.limit_key = n.limit_key AND NOT r.blocked
              AND (r.state = 3 OR r.state < 3 AND r.ready BETWEEN (SELECT at FROM clock) - interval '5 seconds' AND (SELECT at FROM clock))
           ) AS free
  FROM unnest($1::text[], $2::text[]) AS n(namespace, limit_key)
),
u AS (
  UPDATE tickwise.runs
  SET blocked = false, ready = greatest((SELECT at FROM clock), due)
  WHERE run_id = ANY(ARRAY(
    SELECT w.run_id FROM n CROSS JOIN LATERAL (
      SELECT run_id FROM tickwise.runs r
      WHERE r.namespace = n.namespace AND r.limit_key = n.limit_key AND r.blocked
      ORDER BY r.place, r.run_id LIMIT greatest(n.free, 0) FOR UPDATE SKIP LOCKED) w))
  RETURNING 1
)
SELECT count(*) FROM u
