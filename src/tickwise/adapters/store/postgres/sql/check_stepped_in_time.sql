-- Operations that stand still for more than five minutes. $1 page: ids after it, $2 limit. One row for each that is wrong, one at least, and in each the last that was
-- looked at, and how many were.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
p AS MATERIALIZED (
  SELECT operation_id AS id, namespace, status, updated FROM tickwise.operations
  WHERE operation_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') ORDER BY operation_id LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, 'it stands still for ' || round(date_part('epoch', (SELECT at FROM clock) - updated)) || ' s' AS detail, namespace FROM p
  WHERE status = 'running' AND updated < (SELECT at FROM clock) - interval '5 minutes'
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject
