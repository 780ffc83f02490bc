-- Active runs and timers of no job. $1 page: ids after it, $2 limit. One row for each that is wrong, one at least, and in each the last that was
-- looked at, and how many were.
WITH clock AS MATERIALIZED (SELECT tickwise.now() AS at),
p AS MATERIALIZED (
  SELECT id, job_id, what, namespace FROM (
    (SELECT run_id AS id, job_id, 'run' AS what, namespace FROM tickwise.runs
     WHERE run_id > coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') ORDER BY run_id LIMIT $2)
    UNION ALL
    (SELECT job_id, job_id, 'timer', NULL FROM tickwise.timers
     WHERE job_id > coalesce($1, '00000000-0000-0000-0000-000000000000') ORDER BY job_id LIMIT $2)) u
  ORDER BY id LIMIT $2
),
bad AS MATERIALIZED (
  SELECT id AS subject, 'there is a ' || what || ' of the job ' || job_id || ', which is not there' AS detail, namespace FROM p
  WHERE (SELECT true FROM tickwise.jobs j WHERE j.job_id = p.job_id LIMIT 1) IS NULL
)
SELECT bad.subject, bad.detail, bad.namespace, (SELECT id FROM p ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM p) AS looked
FROM (SELECT) one LEFT JOIN bad ON true
ORDER BY bad.subject
