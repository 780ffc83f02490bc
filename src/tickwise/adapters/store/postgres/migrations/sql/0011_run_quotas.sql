-- The quota of runs at once of a namespace. Each run that goes on in a namespace with such a quota has a `limit_key`: that of its job, or
-- else 'quota', which is the key of no job.

-- All that an executor is to know of the quotas of namespaces.
CREATE VIEW tickwise.run_quotas AS
SELECT name AS namespace, (quotas::json ->> 'concurrent_runs')::int AS most
FROM tickwise.namespaces WHERE quotas IS NOT NULL AND quotas::json ->> 'concurrent_runs' IS NOT NULL;

-- The runs of a namespace that go on under any key. Keys are found by one step in the index each: many runs may wait for one.
CREATE FUNCTION tickwise.runs_going(of_namespace text) RETURNS int LANGUAGE sql STABLE AS $$
WITH RECURSIVE k AS (
  (SELECT limit_key FROM tickwise.runs WHERE namespace = of_namespace AND limit_key IS NOT NULL ORDER BY limit_key LIMIT 1)
  UNION ALL
  SELECT n.limit_key FROM k CROSS JOIN LATERAL (
    SELECT limit_key FROM tickwise.runs
    WHERE namespace = of_namespace AND limit_key IS NOT NULL AND limit_key > k.limit_key ORDER BY limit_key LIMIT 1) n
)
SELECT coalesce(sum(g.going), 0)::int FROM k CROSS JOIN LATERAL (
  SELECT count(*) AS going FROM tickwise.runs r
  WHERE r.namespace = of_namespace AND r.limit_key = k.limit_key AND NOT r.blocked AND r.state = 3) g
$$;

-- Those that wait for a slot of these keys (each pair once) are claimable if fewer have one than their own limits say, the earliest first;
-- and those that wait for the quota of one of these namespaces. Returns those that were made so. One call for what needs two snapshots: who
-- is woken is looked at once the keys are locked, so that a run that began to wait before that is seen.
-- `sweeping`: more are woken than there are free slots, if nobody claims what was woken before: as many more as there are such. So their
-- number doubles with each sweep. `apart`: nothing else is written in this transaction (as in `unblock.sql`).
-- A slot is taken by what is RUNNING, and for a moment by what was woken: until it should have been claimed, or its start recorded. In a
-- queue on hold nobody takes one, or is woken. One that somebody else has in hand just now is left to the next sweep.
-- It is that of 0003 but for the quota: of that, what counts is the quota of now, and not what a run was told when it began to wait.
-- Without a quota a thousand go on at a time. Urgent runs go first.
CREATE OR REPLACE FUNCTION tickwise.limits_wake(namespaces text[], keys text[], sweeping boolean, apart boolean)
RETURNS TABLE (run_id uuid, ready float8, lane int) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
-- As `limits_lock.sql`.
INSERT INTO tickwise.limits AS l (namespace, limit_key)
SELECT n.namespace, n.limit_key
FROM (
  SELECT * FROM unnest(namespaces, keys)
  -- Runs have waited for the quota of these.
  UNION SELECT q.namespace, 'quota' FROM tickwise.limits q WHERE q.limit_key = 'quota' AND q.namespace = ANY(namespaces)) AS n(namespace, limit_key)
ORDER BY n.namespace, n.limit_key
ON CONFLICT (namespace, limit_key) DO UPDATE SET limit_key = excluded.limit_key WHERE false;
RETURN QUERY
WITH RECURSIVE clock AS MATERIALIZED (SELECT tickwise.now() AS at),
held AS MATERIALIZED (SELECT array_agg(lane) AS lanes FROM tickwise.lanes_held),
s AS MATERIALIZED (
  SELECT n.namespace, n.limit_key, n.limit_key = 'quota' AS is_quota, CASE WHEN sweeping THEN t.stale ELSE 0 END AS stale,
         t.soon + CASE WHEN n.limit_key = 'quota' THEN tickwise.runs_going(n.namespace) ELSE t.going END AS taken
  FROM (
    SELECT * FROM unnest(namespaces, keys)
    UNION SELECT q.namespace, 'quota' FROM tickwise.limits q WHERE q.limit_key = 'quota' AND q.namespace = ANY(namespaces)) AS n(namespace, limit_key)
  CROSS JOIN LATERAL (
    SELECT (count(*) FILTER (WHERE r.state = 3))::int AS going,
           (count(*) FILTER (WHERE r.goes AND (
              r.state = 1 AND r.ready BETWEEN (SELECT at FROM clock) - interval '1 second' AND (SELECT at FROM clock)
              OR r.state = 2 AND r.claimed > (SELECT at FROM clock) - interval '5 seconds')))::int AS soon,
           (count(*) FILTER (WHERE r.goes AND r.state = 1 AND r.ready < (SELECT at FROM clock) - interval '1 second'))::int AS stale
    FROM (SELECT state, ready, claimed, (lane = ANY((SELECT lanes FROM held)::int[])) IS NOT TRUE AS goes FROM tickwise.runs r
          WHERE r.namespace = n.namespace AND r.limit_key = n.limit_key AND NOT r.blocked) r) t
),
n AS MATERIALIZED (
  SELECT s.*, CASE WHEN is_quota THEN coalesce(
           (SELECT q.most FROM tickwise.run_quotas q WHERE q.namespace = s.namespace), s.taken + 1000) END AS quota
  FROM s
),
-- The lanes and limits for which anybody waits, each found by one step in the index: jobs that share a key may say different ones.
l AS (
  SELECT n.namespace, n.limit_key, n.taken, n.stale, n.quota, f.lane, f.most FROM n CROSS JOIN LATERAL (
    SELECT lane, most FROM tickwise.runs r
    WHERE r.namespace = n.namespace AND r.limit_key = n.limit_key AND r.blocked ORDER BY r.lane, r.most LIMIT 1) f
  UNION ALL
  SELECT l.namespace, l.limit_key, l.taken, l.stale, l.quota, f.lane, f.most FROM l CROSS JOIN LATERAL (
    SELECT lane, most FROM tickwise.runs r
    WHERE r.namespace = l.namespace AND r.limit_key = l.limit_key AND r.blocked AND (r.lane, r.most) > (l.lane, l.most)
    ORDER BY r.lane, r.most LIMIT 1) f
),
-- Of each, as many as could go on at all.
w AS MATERIALIZED (
  SELECT l.namespace, l.limit_key, l.taken, l.stale, coalesce(l.quota, l.most) AS most, w.place, w.run_id,
         CASE WHEN l.quota IS NULL THEN 0 ELSE -(SELECT p.priority FROM tickwise.lanes p WHERE p.lane = l.lane) END AS rank
  FROM l CROSS JOIN LATERAL (
    SELECT place, run_id FROM tickwise.runs r
    WHERE r.namespace = l.namespace AND r.limit_key = l.limit_key AND r.blocked AND r.lane = l.lane AND r.most = l.most
    ORDER BY r.place, r.run_id LIMIT greatest(coalesce(l.quota, l.most) - l.taken, l.stale) FOR UPDATE SKIP LOCKED) w
  WHERE coalesce(l.quota, l.most) > l.taken AND (l.lane = ANY((SELECT lanes FROM held)::int[])) IS NOT TRUE
),
v AS MATERIALIZED (
  SELECT run_id, coalesce(tickwise.woken(most, taken, stale) OVER (
           PARTITION BY namespace, limit_key ORDER BY rank, place, run_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
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

-- The rights of an executor's own role are those of 0003, and the view. Roles that have them already get it now.
CREATE OR REPLACE FUNCTION tickwise.grant_executor(grantee name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA tickwise FROM %I', grantee);
  EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA tickwise FROM %I', grantee);
  EXECUTE format('GRANT USAGE ON SCHEMA tickwise TO %I', grantee);
  EXECUTE format('GRANT SELECT ON tickwise.alembic_version, tickwise.schema_version, tickwise.cluster, tickwise.jobs, tickwise.lanes, '
                 'tickwise.holds, tickwise.queues_held, tickwise.lanes_held, tickwise.runs_shown, tickwise.run_quotas, '
                 'tickwise.results_applied TO %I', grantee);
  EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON tickwise.runs, tickwise.attempts, tickwise.executors, '
                 'tickwise.cancel_requests, tickwise.limits, tickwise.rates, tickwise.follows, tickwise.board TO %I', grantee);
  EXECUTE format('GRANT SELECT, INSERT ON tickwise.history, tickwise.tallies_new, tickwise.incidents TO %I', grantee);
  EXECUTE format('GRANT SELECT, UPDATE (differed) ON tickwise.epochs TO %I', grantee);
  -- Any process may tidy what processes tell each other, and the pace of requests that have ended.
  EXECUTE format('GRANT SELECT, UPDATE, DELETE ON tickwise.paces TO %I', grantee);
  EXECUTE format('GRANT USAGE ON SEQUENCE tickwise.fence, tickwise.places TO %I', grantee);
END $$;

DO $$
DECLARE
  grantee name;
BEGIN
  FOR grantee IN
    SELECT DISTINCT r.rolname FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a JOIN pg_roles r ON r.oid = a.grantee
    WHERE c.oid = 'tickwise.lanes_held'::regclass AND a.privilege_type = 'SELECT' AND r.oid <> c.relowner
  LOOP
    EXECUTE format('GRANT SELECT ON tickwise.run_quotas TO %I', grantee);
  END LOOP;
END $$;
