-- name: limits_of_queue
-- The keys of which a run of this queue waits for a slot. $1 namespace, $2 queue.
SELECT DISTINCT namespace, limit_key FROM tickwise.runs
WHERE namespace = $1 AND limit_key IS NOT NULL AND blocked
  AND lane IN (SELECT lane FROM tickwise.lanes l WHERE l.namespace = $1 AND l.queue = $2)

-- name: limits_wake
-- Wake the runs that wait for a slot of these keys (`0011_run_quotas.sql`), or for the quota of their
-- namespaces. $1 namespaces, $2 keys, $3 whether the sweep calls, $4 whether
-- nothing else is written in this transaction.
SELECT * FROM tickwise.limits_wake($1, $2, $3, $4)

-- name: limits_lock
-- Lock these keys: until this transaction ends no other one starts, or wakes, a run under them. Always in one order; an existing row is
-- locked and not written. $1 namespaces, $2 keys (each pair once).
INSERT INTO tickwise.limits AS l (namespace, limit_key)
SELECT n.namespace, n.limit_key FROM unnest($1::text[], $2::text[]) AS n(namespace, limit_key)
ORDER BY n.namespace, n.limit_key
ON CONFLICT (namespace, limit_key) DO UPDATE SET limit_key = excluded.limit_key WHERE false

-- name: blocked_jobs
-- Jobs in which a run waits for another one.
SELECT DISTINCT job_id FROM tickwise.runs WHERE blocked AND limit_key IS NULL

-- name: limits_waiting
-- The keys after one of which runs wait for a slot, each found by one step in the index. $1 namespace and $2 key to go on after (NULL:
-- from the first), $3 at most.
WITH RECURSIVE k AS (
  (SELECT namespace, limit_key, 1 AS number FROM tickwise.runs
   WHERE limit_key IS NOT NULL AND ($1::text IS NULL OR (namespace, limit_key) > ($1, $2::text))
   ORDER BY namespace, limit_key LIMIT 1)
  UNION ALL
  SELECT n.namespace, n.limit_key, k.number + 1 FROM k CROSS JOIN LATERAL (
    SELECT namespace, limit_key FROM tickwise.runs
    WHERE limit_key IS NOT NULL AND (namespace, limit_key) > (k.namespace, k.limit_key)
    ORDER BY namespace, limit_key LIMIT 1) n
  WHERE k.number < $3::int
)
SELECT namespace, limit_key,
       (SELECT true FROM tickwise.runs r
        WHERE r.namespace = k.namespace AND r.limit_key = k.limit_key AND r.blocked LIMIT 1) IS TRUE AS waiting
FROM k ORDER BY namespace, limit_key
