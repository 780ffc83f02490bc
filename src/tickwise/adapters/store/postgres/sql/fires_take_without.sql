-- As `fires_take`, while some jobs wait: these are left out. $1 horizon in seconds, $2 limit, $3 jobs, $4 those of one-time jobs that
-- would need no decision too.
WITH near AS MATERIALIZED (SELECT tickwise.now() + $1::float8 * interval '1 second' AS until),
t AS (
  SELECT * FROM (
    SELECT * FROM (
      SELECT * FROM tickwise.timers WHERE run_id IS NULL AND due <= (SELECT until FROM near)
        AND job_id NOT IN (SELECT unnest($3::uuid[]))
      ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED) a
    UNION ALL
    SELECT * FROM (
      SELECT * FROM tickwise.timers WHERE $4::boolean AND run_id IS NOT NULL AND due <= (SELECT until FROM near)
        AND job_id NOT IN (SELECT unnest($3::uuid[]))
      ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED) b) t
  ORDER BY due LIMIT $2
)
SELECT t.job_id, j.namespace, j.definition, j.labels::text, t.run_id, j.lane, date_part('epoch', t.due), date_part('epoch', t.since),
       t.hold, coalesce(t.fired, 0), date_part('epoch', t.minute), coalesce(t.in_minute, 0)
FROM t CROSS JOIN LATERAL (
  SELECT namespace, definition, labels, lane FROM tickwise.jobs j WHERE j.job_id = t.job_id OFFSET 0) j
