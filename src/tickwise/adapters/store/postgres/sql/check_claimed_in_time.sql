-- Runs that are free and ready for more than a minute, and that nobody took. $1 page: ids after it, $2 limit. One row for each that is wrong, one at least, and in each the last that was
-- looked at, and how many were.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
p AS MATERIALIZED (
  SELECT run_id AS id, namespace, holder, blocked, ready, due, lane FROM tickwise.runs
  WHERE run_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') ORDER BY run_id LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, 'nobody took it for ' || round(date_part('epoch', (SELECT at FROM clock) - greatest(ready, due))) || ' s' AS detail, namespace, lane
  FROM p
  WHERE holder = 0 AND NOT blocked AND greatest(ready, due) < (SELECT at FROM clock) - interval '1 minute'
    AND lane NOT IN (SELECT lane FROM tickwise.lanes_held)
)
SELECT bad.subject, bad.detail, bad.namespace, bad.lane, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject
