-- Attempts begin that this transaction has locked (`starts_lock`), but for those whose queue is on hold by now; and nobody else starts, or
-- wakes, anything with these keys until it ends (as `limits_lock`). Returns those that began.
-- $1 executor, $2 runs, $3 tokens, $4 instants, $5 what becomes of them if they are lost, $6 namespaces, $7 keys (each pair once).
WITH b AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::bigint[], $4::float8[], $5::smallint[]) AS b(run_id, token, started, on_unknown)
),
keys AS (
  INSERT INTO tickwise.limits AS l (namespace, limit_key)
  SELECT n.namespace, n.limit_key FROM unnest($6::text[], $7::text[]) AS n(namespace, limit_key)
  ORDER BY n.namespace, n.limit_key
  ON CONFLICT (namespace, limit_key) DO UPDATE SET limit_key = excluded.limit_key WHERE false
)
UPDATE tickwise.runs r SET state = 3, started = to_timestamp(b.started), on_unknown = b.on_unknown, limit_key = NULL,
  slot = NULL, rate_key = NULL
FROM b
WHERE r.run_id = ANY($2) AND r.run_id = b.run_id AND r.token = b.token AND r.holder = $1 AND r.state = 2 AND r.overlap <= 0
  AND r.lane NOT IN (SELECT lane FROM tickwise.lanes_held)
RETURNING r.run_id
