-- Runs whose end should have started others for more than a minute. $1 page: ids after it, $2 limit. One row for each that is wrong, one at least, and in each the last that was
-- looked at, and how many were.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
p AS MATERIALIZED (
  SELECT run_id AS id, since FROM tickwise.follows
  WHERE run_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') ORDER BY run_id LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, 'its sequence waits for ' || round(date_part('epoch', (SELECT at FROM clock) - since)) || ' s' AS detail,
         (SELECT h.namespace FROM tickwise.history h WHERE h.run_id = p.id OFFSET 0) AS namespace
  FROM p
  WHERE since < (SELECT at FROM clock) - interval '1 minute'
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject
