-- Concurrency keys that no run has or waits for, and rates whose last start is older than any rate reaches; at most $1 of each.
WITH l AS (
  DELETE FROM tickwise.limits
  WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM tickwise.limits l
      WHERE (SELECT true FROM tickwise.runs r WHERE r.namespace = l.namespace AND r.limit_key = l.limit_key LIMIT 1) IS NULL
      LIMIT $1 FOR UPDATE SKIP LOCKED))
  RETURNING 1
),
r AS (
  DELETE FROM tickwise.rates
  WHERE ctid = ANY(ARRAY(SELECT ctid FROM tickwise.rates WHERE started < tickwise.now() - interval '400 days' LIMIT $1 FOR UPDATE SKIP LOCKED))
  RETURNING 1
)
SELECT greatest((SELECT count(*) FROM l), (SELECT count(*) FROM r))
