-- Timers after the horizon that were computed with other zone data, held by this transaction; those held back left out. $1 horizon
-- in seconds, $2 limit, $3 that zone data, $4 those of one-time jobs that need no decision too. Two ranges, so that timers of the
-- right version are not read.
WITH near AS MATERIALIZED (SELECT tickwise.now() + $1::float8 * interval '1 second' AS until),
t AS (
  SELECT * FROM (
    SELECT * FROM (
      SELECT * FROM tickwise.timers
      WHERE zone_data < $3::text AND zone_data IS NOT NULL AND hold IS NULL AND due > (SELECT until FROM near)
        AND ($4::boolean OR run_id IS NULL)
      ORDER BY zone_data, due LIMIT $2 FOR UPDATE SKIP LOCKED) a
    UNION ALL
    SELECT * FROM (
      SELECT * FROM tickwise.timers
      WHERE zone_data > $3::text AND zone_data IS NOT NULL AND hold IS NULL AND due > (SELECT until FROM near)
        AND ($4::boolean OR run_id IS NULL)
      ORDER BY zone_data, due LIMIT $2 FOR UPDATE SKIP LOCKED) b) t
  ORDER BY due LIMIT $2
)
SELECT t.job_id, j.namespace, j.definition, j.labels::text, t.run_id, j.lane, date_part('epoch', t.due), date_part('epoch', t.since),
       t.hold, coalesce(t.fired, 0), date_part('epoch', t.minute), coalesce(t.in_minute, 0)
FROM t CROSS JOIN LATERAL (
  SELECT namespace, definition, labels, lane FROM tickwise.jobs j WHERE j.job_id = t.job_id OFFSET 0) j
