-- Recurring jobs that are neither paused nor cancelled and have no timer. $1 page: ids after it, $2 limit. One row for each that is wrong, one at least, and in each the last that was
-- looked at, and how many were.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
p AS MATERIALIZED (
  SELECT job_id AS id, namespace, recurring, standing, pause_until, schedule_type FROM tickwise.jobs_lasting
  WHERE job_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') ORDER BY job_id LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, 'it recurs and has no timer' AS detail, namespace FROM p
  WHERE recurring AND schedule_type <> 'ON_DEMAND' AND (standing = 0 OR standing = 1 AND pause_until <= (SELECT at FROM clock))
    AND (SELECT true FROM tickwise.timers t WHERE t.job_id = p.id OFFSET 0) IS NULL
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject
