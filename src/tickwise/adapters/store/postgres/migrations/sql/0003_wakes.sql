-- Those that wait for a slot of these keys (each pair once) are claimable if fewer have one than their own limits say, the earliest first.
-- Returns those that were made so. One call for what needs two snapshots: who is woken is looked at once the keys are locked, so that
-- a run that began to wait before that is seen.
-- `sweeping`: more are woken than there are free slots, if nobody claims what was woken before: as many more as there are such. So their
-- number doubles with each sweep. `apart`: nothing else is written in this transaction (as in `unblock.sql`).
-- A slot is taken by what is RUNNING, and for a moment by what was woken: until it should have been claimed, or its start recorded. In a
-- queue on hold nobody takes one, or is woken. One that somebody else has in hand just now is left to the next sweep.
CREATE FUNCTION tickwise.limits_wake(namespaces text[], keys text[], sweeping boolean, apart boolean)
RETURNS TABLE (run_id uuid, ready float8, lane int) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
-- As `limits_lock.sql`.
INSERT INTO tickwise.limits AS l (namespace, limit_key)
SELECT n.namespace, n.limit_key FROM unnest(namespaces, keys) AS n(namespace, limit_key)
ORDER BY n.namespace, n.limit_key
ON CONFLICT (namespace, limit_key) DO UPDATE SET limit_key = excluded.limit_key WHERE false;
RETURN QUERY
WITH RECURSIVE clock AS MATERIALIZED (SELECT tickwise.now() AS at),
held AS MATERIALIZED (SELECT array_agg(lane) AS lanes FROM tickwise.lanes_held),
n AS MATERIALIZED (
  SELECT n.namespace, n.limit_key, t.taken, CASE WHEN sweeping THEN t.stale ELSE 0 END AS stale
  FROM unnest(namespaces, keys) AS n(namespace, limit_key)
  CROSS JOIN LATERAL (
    SELECT (count(*) FILTER (WHERE r.state = 3 OR r.goes AND (
              r.state = 1 AND r.ready BETWEEN (SELECT at FROM clock) - interval '1 second' AND (SELECT at FROM clock)
              OR r.state = 2 AND r.claimed > (SELECT at FROM clock) - interval '5 seconds')))::int AS taken,
           (count(*) FILTER (WHERE r.goes AND r.state = 1 AND r.ready < (SELECT at FROM clock) - interval '1 second'))::int AS stale
    FROM (SELECT state, ready, claimed, (lane = ANY((SELECT lanes FROM held)::int[])) IS NOT TRUE AS goes FROM tickwise.runs r
          WHERE r.namespace = n.namespace AND r.limit_key = n.limit_key AND NOT r.blocked) r) t
),
-- The lanes and limits for which anybody waits, each found by one step in the index: jobs that share a key may say different ones.
l AS (
  SELECT n.namespace, n.limit_key, n.taken, n.stale, f.lane, f.most FROM n CROSS JOIN LATERAL (
    SELECT lane, most FROM tickwise.runs r
    WHERE r.namespace = n.namespace AND r.limit_key = n.limit_key AND r.blocked ORDER BY r.lane, r.most LIMIT 1) f
  UNION ALL
  SELECT l.namespace, l.limit_key, l.taken, l.stale, f.lane, f.most FROM l CROSS JOIN LATERAL (
    SELECT lane, most FROM tickwise.runs r
    WHERE r.namespace = l.namespace AND r.limit_key = l.limit_key AND r.blocked AND (r.lane, r.most) > (l.lane, l.most)
    ORDER BY r.lane, r.most LIMIT 1) f
),
-- Of each, as many as could go on at all.
w AS MATERIALIZED (
  SELECT l.namespace, l.limit_key, l.taken, l.stale, l.most, w.place, w.run_id FROM l CROSS JOIN LATERAL (
    SELECT place, run_id FROM tickwise.runs r
    WHERE r.namespace = l.namespace AND r.limit_key = l.limit_key AND r.blocked AND r.lane = l.lane AND r.most = l.most
    ORDER BY r.place, r.run_id LIMIT greatest(l.most - l.taken, l.stale) FOR UPDATE SKIP LOCKED) w
  WHERE l.most > l.taken AND (l.lane = ANY((SELECT lanes FROM held)::int[])) IS NOT TRUE
),
v AS MATERIALIZED (
  SELECT run_id, coalesce(tickwise.woken(most, taken, stale) OVER (
           PARTITION BY namespace, limit_key ORDER BY place, run_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
         < greatest(most - taken, stale) AS goes
  FROM w
),
u AS (
  UPDATE tickwise.runs
  SET blocked = false, ready = greatest((SELECT at FROM clock), due)
  WHERE run_id = ANY(ARRAY(SELECT run_id FROM v WHERE goes))
  RETURNING run_id, ready, lane
)
SELECT run_id, date_part('epoch', ready), lane FROM u;
IF apart AND FOUND THEN
  PERFORM set_config('synchronous_commit', 'off', true);
END IF;
END
$$;
