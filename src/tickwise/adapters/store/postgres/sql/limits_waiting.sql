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
