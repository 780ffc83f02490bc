-- Those that wait for a slot of these keys are claimable if fewer have one than their own limits say, the earliest first; how many.
-- $1 namespaces, $2 keys, which this transaction has locked (`limits_lock`). A run that was woken within the last seconds, and has not
-- begun, is about to take a slot. One that somebody else has in hand just now is left to the next sweep.
WITH RECURSIVE clock AS MATERIALIZED (SELECT tickwise.now() AS at),
n AS MATERIALIZED (
  SELECT n.namespace, n.limit_key,
         (SELECT count(*) FROM tickwise.runs r
          WHERE r.namespace = n.namespace AND r.limit_key = n.limit_key AND NOT r.blocked
            AND (r.state = 3 OR r.state < 3 AND r.ready BETWEEN (SELECT at FROM clock) - interval '5 seconds' AND (SELECT at FROM clock))
         )::int AS taken
  FROM unnest($1::text[], $2::text[]) AS n(namespace, limit_key)
),
-- The limits above that for which anybody waits, each found by one step in the index: jobs that share a key may say different ones.
l AS (
  SELECT n.namespace, n.limit_key, n.taken, f.most FROM n CROSS JOIN LATERAL (
    SELECT most FROM tickwise.runs r
    WHERE r.namespace = n.namespace AND r.limit_key = n.limit_key AND r.blocked AND r.most > n.taken ORDER BY r.most LIMIT 1) f
  UNION ALL
  SELECT l.namespace, l.limit_key, l.taken, f.most FROM l CROSS JOIN LATERAL (
    SELECT most FROM tickwise.runs r
    WHERE r.namespace = l.namespace AND r.limit_key = l.limit_key AND r.blocked AND r.most > l.most ORDER BY r.most LIMIT 1) f
),
-- Of each, as many as could go on at all.
w AS MATERIALIZED (
  SELECT l.namespace, l.limit_key, l.taken, l.most, w.place, w.run_id FROM l CROSS JOIN LATERAL (
    SELECT place, run_id FROM tickwise.runs r
    WHERE r.namespace = l.namespace AND r.limit_key = l.limit_key AND r.blocked AND r.most = l.most
    ORDER BY r.place, r.run_id LIMIT l.most - l.taken FOR UPDATE SKIP LOCKED) w
),
v AS MATERIALIZED (
  SELECT run_id, most > coalesce(tickwise.taken(taken, most) OVER (
           PARTITION BY namespace, limit_key ORDER BY place, run_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), taken) AS goes
  FROM w
),
u AS (
  UPDATE tickwise.runs
  SET blocked = false, ready = greatest((SELECT at FROM clock), due)
  WHERE run_id = ANY(ARRAY(SELECT run_id FROM v WHERE goes))
  RETURNING 1
)
SELECT count(*) FROM u
