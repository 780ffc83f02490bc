-- As `fires_take`, and those of one-time jobs that would need no decision too. $1 horizon in seconds, $2 limit.
WITH near AS MATERIALIZED (SELECT tickwise.now() + $1::float8 * interval '1 second' AS until),
t AS (
  SELECT * FROM (
    SELECT * FROM (
      SELECT * FROM tickwise.timers WHERE run_id IS NULL AND due <= (SELECT until FROM near)
      ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED) a
    UNION ALL
    SELECT * FROM (
      SELECT * FROM tickwise.timers WHERE run_id IS NOT NULL AND due <= (SELECT until FROM near)
      ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED) b) t
  ORDER BY due LIMIT $2
)
SELECT t.job_id, j.namespace, date_part('epoch', t.due) AS due, date_part('epoch', t.since) AS since, t.hold,
       coalesce(t.fired, 0) AS fired, date_part('epoch', t.minute) AS minute, coalesce(t.in_minute, 0) AS in_minute, t.run_id,
       j.definition, j.labels::text AS labels
FROM t CROSS JOIN LATERAL (
  SELECT namespace, definition, labels FROM tickwise.jobs j WHERE j.job_id = t.job_id OFFSET 0) j
