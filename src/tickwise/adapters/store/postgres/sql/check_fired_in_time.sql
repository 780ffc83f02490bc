-- Timers that are due for more than a minute. $1 page: ids after it, $2 limit. One row for each that is wrong, one at least, and in each the last that was
-- looked at, and how many were.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
p AS MATERIALIZED (
  SELECT job_id AS id, due FROM tickwise.timers
  WHERE job_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') ORDER BY job_id LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, 'its timer is due for ' || round(date_part('epoch', (SELECT at FROM clock) - due)) || ' s' AS detail,
         (SELECT j.namespace FROM tickwise.jobs j WHERE j.job_id = p.id OFFSET 0) AS namespace
  FROM p
  WHERE due < (SELECT at FROM clock) - interval '1 minute'
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject
