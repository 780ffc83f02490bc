-- Runs that are held by nobody who could finish them. $1 page: ids after it, $2 limit. One row for each that is wrong, one at least, and in each the last that was
-- looked at, and how many were.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
p AS MATERIALIZED (
  SELECT run_id AS id, namespace, holder FROM tickwise.runs
  WHERE run_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') ORDER BY run_id LIMIT $2
),
bad AS MATERIALIZED (
  SELECT p.id AS subject, 'it is held by executor ' || p.holder || ', which is gone' AS detail, namespace FROM p
  WHERE p.holder <> 0 AND (SELECT true FROM tickwise.executors e
                           WHERE e.executor = p.holder AND (e.gone IS NULL OR NOT e.settled) OFFSET 0) IS NULL
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject
